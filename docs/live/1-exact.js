// Exact numbers, laws, and noise: the script of specsim's live page begins here. Nothing is sampled and nothing rounded.

// A rational number: numerator and denominator, whole, in lowest terms, the denominator above 0.
function ratio(n, d = 1n) {
  let [a, b] = [n < 0n ? -n : n, d < 0n ? -d : d];
  while (b) [a, b] = [b, a % b];
  const by = d < 0n ? -a : a;
  return { n: n / by, d: d / by };
}

const NOTHING = ratio(0n);
const EVERYTHING = ratio(1n);

const whole = (number) => ratio(BigInt(number));
const part = (number, of) => ratio(BigInt(number), BigInt(of));
const add = (a, b) => ratio(a.n * b.d + b.n * a.d, a.d * b.d);
const minus = (a, b) => ratio(a.n * b.d - b.n * a.d, a.d * b.d);
const times = (a, b) => ratio(a.n * b.n, a.d * b.d);
const over = (a, b) => ratio(a.n * b.d, a.d * b.n);
const isBelow = (a, b) => a.n * b.d < b.n * a.d;
const isEqual = (a, b) => a.n === b.n && a.d === b.d;
const isZero = (a) => a.n === 0n;
const least = (a, b) => (isBelow(b, a) ? b : a);
const most = (a, b) => (isBelow(a, b) ? b : a);
const size = (a) => (a.n < 0n ? ratio(-a.n, a.d) : a);
const total = (numbers) => numbers.reduce(add, NOTHING);
const written = (a) => (a.d === 1n ? String(a.n) : `${a.n}/${a.d}`);
const about = (a) => Number(a.n) / Number(a.d);

function parsed(text) {
  const [n, d = "1"] = text.split("/");
  return ratio(BigInt(n), BigInt(d));
}

// A law: how probable each output is, by its tokens with spaces between them.
const named = (tokens) => tokens.join(" ");

function raise(law, name, chance) {
  if (!isZero(chance)) law.set(name, add(law.get(name) ?? NOTHING, chance));
}

function totalVariation(law, other) {
  const names = new Set([...law.keys(), ...other.keys()]);
  const apart = [...names].map((name) => size(minus(law.get(name) ?? NOTHING, other.get(name) ?? NOTHING)));
  return over(total(apart), whole(2));
}

// Runs a play once for each way through its noise, and returns all results with their exact chances. Each run gets its
// outcome at every draw; a draw whose outcome is settled by what the same noise has decided is no choice.
function everyWay(play) {
  const ways = [];
  const trail = [];
  do {
    let chance = EVERYTHING;
    let depth = 0;
    const choose = (options) => {
      if (depth === trail.length) trail.push({ at: 0, count: options.length });
      const option = options[trail[depth++].at];
      chance = times(chance, option.chance);
      return option;
    };
    const result = play(unknownNoise(choose));
    ways.push({ result, chance });
    while (trail.length && ++trail.at(-1).at === trail.at(-1).count) trail.pop();
  } while (trail.length);
  return ways;
}

// Noise of which only what was decided by it is known, by its key: the bounds of a coin, or the winner of a race.
function unknownNoise(choose) {
  const known = new Map();

  function cut(key, parts) {
    const before = known.get(key) ?? { low: NOTHING, high: EVERYTHING };
    const options = [];
    for (const [outcome, start, end] of parts) {
      const [low, high] = [most(start, before.low), least(end, before.high)];
      if (isBelow(low, high)) {
        options.push({ outcome, low, high, chance: over(minus(high, low), minus(before.high, before.low)) });
      }
    }
    const { outcome, low, high } = choose(options);
    known.set(key, { low, high });
    return outcome;
  }

  return {
    below: (key, bound) => cut(key, [[true, NOTHING, bound], [false, bound, EVERYTHING]]),
    pick: (key, weights) => cut(key, sharesOf(weights)),
    race(key, weights) {
      const all = total(weights);
      const shares = weights.map((weight) => over(weight, all));
      const before = known.get(key);
      const law = before ? secondRace(before.shares, shares, before.winner) : shares;
      const options = law.map((chance, outcome) => ({ outcome, chance })).filter((one) => !isZero(one.chance));
      const { outcome } = choose(options);
      known.set(key, { shares, winner: outcome });
      return outcome;
    },
  };
}

// Noise whose coins are set.
function setCoins(coins) {
  return {
    below: (key, bound) => isBelow(coins[key], bound),
    pick: (key, weights) => sharesOf(weights).find(([, , end]) => isBelow(coins[key], end))[0],
  };
}

// Which token a coin draws by prefix sums: each with where its share of [0, 1) begins and ends. Without any weight it is
// the last token.
function sharesOf(weights) {
  const all = total(weights);
  if (isZero(all)) return [[weights.length - 1, NOTHING, EVERYTHING]];
  let start = NOTHING;
  return weights.map((weight, token) => {
    const begin = start;
    start = add(start, weight);
    return [token, over(begin, all), over(start, all)];
  });
}

// The law of a race on noise on which a token has won a race before. If that one came in at time T, its own exponential
// number is first[winner] T, and every other's is first[i] T and an exponential number more.
function secondRace(first, second, winner) {
  if (first.every((share, token) => isEqual(share, second[token]))) {
    return first.map((_, token) => (token === winner ? EVERYTHING : NOTHING));
  }
  const others = second.map((_, token) => token).filter((token) => token !== winner && !isZero(second[token]));
  const start = (token) => over(first[token], second[token]);
  const end = isZero(second[winner]) ? null : start(winner);

  function left(time) {
    if (time === null) return NOTHING;
    const passed = others.map((token) => times(second[token], most(minus(time, start(token)), NOTHING)));
    return over(EVERYTHING, add(EVERYTHING, total(passed)));
  }

  const law = second.map(() => NOTHING);
  if (end) law[winner] = left(end);
  const knots = [...new Map(others.map((token) => [written(start(token)), start(token)])).values()];
  const inside = knots.filter((knot) => !end || isBelow(knot, end)).sort((a, b) => (isBelow(a, b) ? -1 : 1));
  inside.forEach((low, place) => {
    const high = inside[place + 1] ?? end;
    const racing = others.filter((token) => !isBelow(low, start(token)));
    const gone = over(minus(left(low), left(high)), total(racing.map((token) => second[token])));
    for (const token of racing) law[token] = add(law[token], times(second[token], gone));
  });
  return law;
}
