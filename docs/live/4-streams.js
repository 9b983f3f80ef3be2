// One draft an iteration, two output tokens, and draws that may share their noise.

const FRESH_NOISE = "", RECOVERY_ON_DRAFT = "OWN-4230", BONUS_ON_DRAFT = "OWN-4231", COIN_TWICE = "OWN-4234";

// The key of each draw: draws with one key see the same noise.
const KEYS = {
  draft(fault, position) {
    if (fault === RECOVERY_ON_DRAFT) return `token ${position}`;
    if (fault === BONUS_ON_DRAFT) return `token ${position + 1}`;
    return `draft ${position}`;
  },
  accept: (fault, position) => (fault === COIN_TWICE ? `token ${position}` : `accept ${position}`),
  token: (fault, position) => `token ${position}`,
};

function twoTokens(fault, p, q, noise) {
  const draw = fault === COIN_TWICE ? noise.pick : noise.race;
  const tokens = [];
  while (tokens.length < 2) {
    const position = tokens.length;
    const draft = draw(KEYS.draft(fault, position), q);
    if (noise.below(KEYS.accept(fault, position), least(over(p[draft], q[draft]), EVERYTHING))) {
      tokens.push(draft);
      if (tokens.length < 2) tokens.push(draw(KEYS.token(fault, position + 1), p));
    } else {
      tokens.push(draw(KEYS.token(fault, position), excess(p, q, EVERYTHING)));
    }
  }
  return tokens;
}

function lawOfTwo(fault, p, q) {
  const law = new Map();
  for (const { result, chance } of everyWay((noise) => twoTokens(fault, p, q, noise))) raise(law, named(result), chance);
  return law;
}

function targetOfTwo(p) {
  const law = new Map();
  p.forEach((share, one) => p.forEach((weight, other) => raise(law, named([one, other]), times(share, weight))));
  return law;
}

function firstToken(law) {
  return capped(law, 1);
}

function rowOf(parts) {
  const of = parts.reduce((sum, one) => sum + one, 0);
  return parts.map((one) => part(one, of));
}
