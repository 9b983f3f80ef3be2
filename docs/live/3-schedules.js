// Joint laws of two requests of two drafts, of which a schedule chooses how many are verified.

const FRESH_FORM = 0, COUPLED_FORM = 1, BLOCK_FORM = 2, CAPPED_BLOCK_FORM = 3, DRAWS_FORM = 4;
const NUM_DRAFTS = 2;
const AFTER_TWO = [part(1, 3), part(2, 3)];
const ALL_DRAFTS = [[0, 0], [0, 1], [1, 0], [1, 1]];

// Rows of target and draft by the tokens before them; parts are the chances of token 0, first the target's.
function requestOf(parts, of) {
  const rows = parts.map((one) => [part(one, of), part(of - one, of)]);
  const byFront = (first) => (front) => (front.length === NUM_DRAFTS ? AFTER_TWO : rows[first + (front.length && 1 + front[0])]);
  return { target: byFront(0), proposal: byFront(3) };
}

const chanceOf = (request, draft) => times(request.proposal([])[draft[0]], request.proposal([draft[0]])[draft[1]]);
const excess = (p, q, share) => p.map((one, token) => most(minus(times(share, one), q[token]), NOTHING));

function emit(law, front, chance, weights) {
  const all = total(weights);
  if (isZero(chance) || isZero(all)) return;
  weights.forEach((weight, token) => raise(law, named([...front, token]), over(times(chance, weight), all)));
}

function tokenByToken({ target, proposal }, draft) {
  const law = new Map();
  let chance = EVERYTHING;
  draft.forEach((token, place) => {
    const front = draft.slice(0, place);
    const [p, q] = [target(front), proposal(front)];
    const kept = least(over(p[token], q[token]), EVERYTHING);
    emit(law, front, times(chance, minus(EVERYTHING, kept)), excess(p, q, EVERYTHING));
    chance = times(chance, kept);
  });
  emit(law, draft, chance, target(draft));
  return law;
}

// Fronts of a draft are judged from the longest one down; the first whose coin says so is kept.
function asBlock({ target, proposal }, draft) {
  const shares = [EVERYTHING];
  draft.forEach((token, place) => {
    const front = draft.slice(0, place);
    shares.push(least(over(times(shares[place], target(front)[token]), proposal(front)[token]), EVERYTHING));
  });
  const law = new Map();
  let left = EVERYTHING;
  for (let count = draft.length; count >= 0; count--) {
    const front = draft.slice(0, count);
    const share = shares[count];
    const isWhole = count === draft.length;
    const rest = isWhole ? target(front) : excess(target(front), proposal(front), share);
    const isPlain = isWhole || isZero(share) || isEqual(share, EVERYTHING);
    const chance = isPlain ? share : over(total(rest), add(total(rest), minus(EVERYTHING, share)));
    const kept = count ? chance : EVERYTHING;
    emit(law, front, times(left, kept), rest);
    left = times(left, minus(EVERYTHING, kept));
  }
  return law;
}

function againstDraws({ target }, draft) {
  const law = new Map();
  let chance = EVERYTHING;
  draft.forEach((token, place) => {
    const row = target(draft.slice(0, place));
    const others = row.map((share, one) => (one === token ? NOTHING : share));
    emit(law, draft.slice(0, place), times(chance, minus(EVERYTHING, row[token])), others);
    chance = times(chance, row[token]);
  });
  emit(law, draft, chance, target(draft));
  return law;
}

function capped(law, count) {
  const short = new Map();
  for (const [name, chance] of law) raise(short, named(name.split(" ").slice(0, count)), chance);
  return short;
}

// The law of what one request outputs of a draft of which so many tokens are verified.
function emittedLaw(request, draft, length, form) {
  if (form === FRESH_FORM) return tokenByToken(request, draft.slice(0, length));
  if (form === COUPLED_FORM) return capped(tokenByToken(request, draft.slice(0, length + 1)), length + 1);
  if (form === BLOCK_FORM) return asBlock(request, draft.slice(0, length));
  if (form === DRAWS_FORM) return againstDraws(request, draft.slice(0, length));
  const uniform = [part(1, 2), part(1, 2)];
  const target = (front) => (front.length > length ? uniform : request.target(front));
  return capped(asBlock({ ...request, target }, draft), length + 1);
}

function extended(law, target) {
  const longer = new Map();
  for (const [name, chance] of law) {
    const tokens = name.split(" ").map(Number).slice(0, NUM_DRAFTS);
    if (tokens.length === NUM_DRAFTS) raise(longer, named(tokens), chance);
    else target(tokens).forEach((share, token) => raise(longer, named([...tokens, token]), times(chance, share)));
  }
  return longer;
}

const pairOf = (a, b) => `${named(a)} | ${named(b)}`;
const numTokens = (law) => total([...law].map(([name, chance]) => times(whole(name.split(" ").length), chance)));

// The exact law of what two equal requests output; lengths are a schedule's, by the drafts of both.
function jointLaw(request, lengths, form) {
  const emitted = new Map();
  for (const draft of ALL_DRAFTS) {
    for (let length = 0; length <= NUM_DRAFTS; length++) {
      const law = emittedLaw(request, draft, length, form);
      emitted.set(`${named(draft)},${length}`, { law: extended(law, request.target), tokens: numTokens(law) });
    }
  }
  const joint = new Map();
  let [numVerified, numEmitted] = [NOTHING, NOTHING];
  for (const a of ALL_DRAFTS) {
    for (const b of ALL_DRAFTS) {
      const chance = times(chanceOf(request, a), chanceOf(request, b));
      const [one, other] = lengths.get(pairOf(a, b));
      const [first, second] = [emitted.get(`${named(a)},${one}`), emitted.get(`${named(b)},${other}`)];
      for (const [x, share] of first.law) {
        for (const [y, weight] of second.law) raise(joint, `${x} | ${y}`, times(chance, times(share, weight)));
      }
      numVerified = add(numVerified, times(chance, whole(one + other)));
      numEmitted = add(numEmitted, times(chance, add(first.tokens, second.tokens)));
    }
  }
  return { joint, numVerified, numEmitted, ...compared(joint, request.target) };
}

function compared(joint, target) {
  const alone = extended(new Map(target([]).map((share, token) => [String(token), share])), target);
  const own = [new Map(), new Map()];
  for (const [name, chance] of joint) name.split(" | ").forEach((one, request) => raise(own[request], one, chance));
  const product = new Map();
  let dependence = NOTHING;
  for (const [x, share] of alone) {
    for (const [y, weight] of alone) {
      raise(product, `${x} | ${y}`, times(share, weight));
      const apart = times(own[0].get(x) ?? NOTHING, own[1].get(y) ?? NOTHING);
      dependence = most(dependence, size(minus(joint.get(`${x} | ${y}`) ?? NOTHING, apart)));
    }
  }
  return { product, dependence, distance: totalVariation(joint, product), alone: own.map((law) => totalVariation(law, alone)) };
}

// Which drafts have the best survivals. Equal ones go by position and then by request; a budget of their sum reads it.
function bestLengths(request, confidence, budget) {
  return ([a, b]) => {
    const found = [a, b].flatMap((draft, which) => {
      const first = confidence(request.proposal([]), draft[0]);
      const second = times(first, confidence(request.proposal([draft[0]]), draft[1]));
      return [[first, 0, which], [second, 1, which]];
    });
    const count = budget(total(found.map(([share]) => share)));
    found.sort(([s, i, r], [t, j, q]) => (isEqual(s, t) ? i - j || r - q : isBelow(t, s) ? -1 : 1));
    const sent = found.slice(0, count).map(([, , which]) => which);
    return [sent.filter((which) => which === 0).length, sent.filter((which) => which === 1).length];
  };
}

const peak = (row) => row.reduce(most);
const SCHEDULERS = {
  before: (request, budget) => bestLengths(request, peak, () => budget),
  after: (request, budget) => bestLengths(request, (row, token) => row[token], () => budget),
  own: (request, leastSum) => bestLengths(request, peak, (sum) => (isBelow(sum, leastSum) ? 0 : 2)),
};

function lengthsOf(choose) {
  return new Map(ALL_DRAFTS.flatMap((a) => ALL_DRAFTS.map((b) => [pairOf(a, b), choose([a, b])])));
}

// The first two arrays of drafts that differ in one draft which is not judged, and yet have other lengths.
function firstUnpredictable(lengths, lookAhead) {
  for (const [name, chosen] of lengths) {
    const drafts = name.split(" | ").map((one) => one.split(" ").map(Number));
    for (const request of [0, 1]) {
      for (let place = Math.min(chosen[request] + lookAhead, NUM_DRAFTS); place < NUM_DRAFTS; place++) {
        const others = drafts.map((draft) => [...draft]);
        others[request][place] = 1 - others[request][place];
        const otherwise = lengths.get(pairOf(...others));
        if (named(otherwise) !== named(chosen)) return { drafts, others, chosen, otherwise, request, place };
      }
    }
  }
  return null;
}
