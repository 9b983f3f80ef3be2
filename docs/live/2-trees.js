// Walks of a tree of drafts by chance, as the reference walks it and with each of the planted faults.

// A scene has parents, tokens and rows, one a node, and the last level that a walk may reach.
function sceneOf(tree, rows) {
  const depths = [];
  tree.parents.forEach((parent, node) => depths.push(parent < 0 ? 0 : depths[parent] + 1));
  const children = tree.parents.map((_, node) => tree.parents.flatMap((parent, child) => (parent === node ? [child] : [])));
  return { ...tree, rows, depths, children, steps: Math.max(...depths) };
}

// The tokens from the root to a node, without the root's.
function prefixOf(tree, node) {
  return node === 0 ? [] : [...prefixOf(tree, tree.parents[node]), tree.tokens[node]];
}

const COIN_OF = (node) => `node ${node}`;
const LAST_COIN = "last";

function draftsAfter(scene, node, fault) {
  const tried = fault === "OWN-260" ? [...scene.children[node]].reverse() : scene.children[node];
  if (fault === "OWN-292") return tried;
  return tried.filter((child, place) => tried.findIndex((one) => scene.tokens[one] === scene.tokens[child]) === place);
}

// One walk: the accepted nodes, the output tokens, and what was asked on the way.
function walk(scene, fault, noise) {
  const path = [0];
  const tokens = [];
  const asked = [];
  let isStuck = false;
  let mass = NOTHING;
  while (path.length <= scene.steps && !isStuck) {
    const node = path.at(-1);
    const row = scene.rows[node];
    isStuck = true;
    if (fault !== "SYN5") mass = NOTHING;
    for (const child of draftsAfter(scene, node, fault)) {
      const token = scene.tokens[child];
      const before = fault === "OWN-253" ? NOTHING : mass;
      mass = add(before, row[token]);
      const coin = fault === "OWN-250" ? COIN_OF(child) : fault === "OWN-275" ? LAST_COIN : COIN_OF(node);
      const isAccepted =
        !isZero(row[token]) && (fault === "V28" ? !isZero(mass) : noise.below(coin, least(mass, EVERYTHING)));
      asked.push({ node, child, token, before, mass, coin, isAccepted });
      if (isAccepted) {
        path.push(child);
        tokens.push(token);
        isStuck = false;
        break;
      }
    }
  }
  const end = path.at(-1);
  const rejected = asked.filter((one) => one.node === end && !one.isAccepted).map((one) => one.token);
  const row = scene.rows[fault === "OWN-261" ? 0 : end];
  const rest = row.map((share, token) => (fault !== "SYN6" && rejected.includes(token) ? NOTHING : share));
  const coin = fault === "V01" ? COIN_OF(end) : LAST_COIN;
  return { path, tokens: [...tokens, noise.pick(coin, rest)], asked, last: { coin, rest } };
}

function treeLaw(scene, fault) {
  const law = new Map();
  for (const { result, chance } of everyWay((noise) => walk(scene, fault, noise))) raise(law, named(result.tokens), chance);
  return law;
}

function childOf(scene, node, token) {
  return scene.children[node].find((child) => scene.tokens[child] === token);
}

// The target's own law from a node on: down the tree while a token is a child, and then the first that is none.
function targetLaw(scene, node = 0, before = [], chance = EVERYTHING, law = new Map()) {
  scene.rows[node].forEach((share, token) => {
    if (isZero(share)) return;
    const child = childOf(scene, node, token);
    if (child === undefined) raise(law, named([...before, token]), times(chance, share));
    else targetLaw(scene, child, [...before, token], times(chance, share), law);
  });
  return law;
}

// A law whose outputs go on by the target until they leave the tree.
function completed(scene, law) {
  const longer = new Map();
  for (const [name, chance] of law) {
    const output = name.split(" ").map(Number);
    const node = output.reduce((at, token) => (at === undefined ? at : childOf(scene, at, token)), 0);
    if (node === undefined) raise(longer, name, chance);
    else for (const [one, share] of targetLaw(scene, node, output, chance)) raise(longer, one, share);
  }
  return longer;
}

const biasOfTree = (scene, law) => totalVariation(completed(scene, law), targetLaw(scene));
