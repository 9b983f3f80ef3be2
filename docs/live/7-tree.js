// The first exhibit: a tree, its coins and rows, and a fault.

const WEIGHTS = 8;
const STEP_X = 104, STEP_Y = 96, RADIUS = 22, MARGIN = 40;

function showTrees(root, { trees, scenes, samplers, coinParts }, threads) {
  const [controls, stage, status] = ["controls", "stage", "status"].map((name) => root.querySelector(`.${name}`));
  const announce = announcer(status);
  const state = { tree: Object.keys(trees)[0], fault: "", coins: {}, rows: new Map(), prefix: "" };
  const biases = new Map();
  const coinGroup = group("Coins");
  const rowGroup = group("The target's rows");

  const tree = () => trees[state.tree];
  const prefixes = () => [...new Set(tree().parents.map((_, node) => named(prefixOf(tree(), node))))];
  const scene = () => sceneOf(tree(), tree().parents.map((_, node) => rowOf(state.rows.get(named(prefixOf(tree(), node))))));

  function begin(name) {
    state.tree = name;
    const { rows } = scenes.find((entry) => entry.tree === name);
    state.rows = new Map();
    tree().parents.forEach((_, node) => {
      const row = rows[node].map((share) => about(parsed(share)) * WEIGHTS);
      state.rows.set(named(prefixOf(tree(), node)), row);
    });
    state.coins = { [LAST_COIN]: 40 };
    tree().parents.forEach((_, node) => (state.coins[COIN_OF(node)] = [20, 36, 52, 10, 44][node]));
    state.prefix = "";
    showCoins();
    showRows();
    show();
  }

  function coinsRead() {
    const { reads } = samplers[state.fault];
    const nodes = tree().parents.map((_, node) => node);
    const read = nodes.filter((node) => (reads === "parents" ? scene().children[node].length : reads === "nodes" || node > 0));
    if (state.fault === "V28") return [LAST_COIN];
    if (state.fault === "OWN-275") return [LAST_COIN];
    return [...read.map(COIN_OF), ...(reads === "nodes" ? [] : [LAST_COIN])];
  }

  const placeOf = (node) => (node === 0 ? "root" : `after ${named(prefixOf(tree(), node))}`);
  const nameOf = (coin) => (coin === LAST_COIN ? "last token" : `node ${coin.slice(5)}, ${placeOf(Number(coin.slice(5)))}`);

  function showCoins() {
    const sliders = coinsRead().map((coin) =>
      slider({
        label: nameOf(coin),
        most: coinParts - 1,
        value: state.coins[coin],
        shown: (value) => decimals(part(value, coinParts), 3),
        onInput(value) {
          state.coins[coin] = value;
          show();
        },
      }).root,
    );
    const toss = () => {
      for (const coin of Object.keys(state.coins)) state.coins[coin] = Math.floor(Math.random() * coinParts);
      showCoins();
      show();
      coinGroup.querySelector("button").focus();
    };
    coinGroup.replaceChildren(el("legend", {}, "Coins"), ...sliders, el("button", { type: "button", onclick: toss }, "Toss them"));
  }

  function showRows() {
    const options = prefixes().map((prefix) => [prefix, prefix === "" ? "root" : prefix]);
    const pills = choice({
      legend: "Row after",
      name: "prefix",
      options,
      value: state.prefix,
      onChange(prefix) {
        state.prefix = prefix;
        showSliders();
        show();
      },
    });
    const sliders = el("div");
    function showSliders() {
      sliders.replaceChildren(...rowSliders(state.rows.get(state.prefix), WEIGHTS, show));
    }
    showSliders();
    rowGroup.replaceChildren(el("legend", {}, "The target's rows"), pills, sliders);
  }

  function chooseFault(fault) {
    state.fault = fault;
    showCoins();
    show();
  }

  function thread(fault) {
    if (!threads[fault]) return [];
    const [repository, number] = threads[fault];
    const address = `https://github.com/${repository}/issues/${number}`;
    return [" ", el("a", { href: address, rel: "noreferrer" }, `${repository} #${number}`)];
  }

  const faults = Object.entries(samplers).map(([fault, { summary }]) => {
    biases.set(fault, el("span", { class: "bias" }));
    return [fault, fault === "" ? "No fault: the reference" : el("span", {}, summary, thread(fault)), biases.get(fault)];
  });
  controls.append(
    choice({ legend: "Tree", name: "tree", value: state.tree, options: Object.keys(trees).map((one) => [one, one]), onChange: begin }),
    choice({ legend: "Fault, and the bias that it has here", name: "fault", value: "", options: faults, onChange: chooseFault, kind: "list" }),
    coinGroup,
    rowGroup,
  );
  begin(state.tree);

  function show() {
    const current = scene();
    const coins = Object.fromEntries(Object.entries(state.coins).map(([coin, value]) => [coin, part(value, coinParts)]));
    const walked = walk(current, state.fault, setCoins(coins));
    for (const [fault, place] of biases) place.replaceChildren(figure(biasOfTree(current, treeLaw(current, fault))));
    const law = treeLaw(current, state.fault);
    const bias = biasOfTree(current, law);
    const accepted = walked.path.slice(1).map((node) => current.tokens[node]);
    const path = `${accepted.length ? `accepts ${named(accepted)} and` : "accepts no draft and"} draws ${walked.tokens.at(-1)}`;
    stage.replaceChildren(
      el("p", { class: "headline" }, el("span", { class: "of" }, "bias, in total variation"), figure(bias)),
      picture(current, walked, state.prefix, choosePrefix),
      el("ol", { class: "walk", "aria-label": "The walk by these coins" }, steps(current, walked, coins, state.fault)),
      lawTable("The exact law of the output, over all coins", targetLaw(current), completed(current, law)),
    );
    announce(`Bias ${written(bias)}, about ${decimals(bias)}. With these coins the walk ${path}.`);
  }

  function choosePrefix(prefix) {
    state.prefix = prefix;
    showRows();
    show();
  }
}

// Where each node stands: leaves side by side, parents in the middle above their children.
function placesOf(scene, end) {
  const places = [];
  let leaves = 0;
  function place(node, depth) {
    const below = [...scene.children[node].map((child) => place(child, depth + 1)), ...(node === end ? [leaf(depth + 1)] : [])];
    const x = below.length ? (below[0].x + below.at(-1).x) / 2 : leaves++ * STEP_X;
    return (places[node] = { x, y: depth * STEP_Y });
  }
  const leaf = (depth) => (places.last = { x: leaves++ * STEP_X, y: depth * STEP_Y });
  place(0, 0);
  return { places, width: (leaves - 1) * STEP_X, height: Math.max(...places.map((one) => one.y), places.last.y) };
}

function picture(scene, { path, tokens, asked }, prefix, onChoose) {
  const end = path.at(-1);
  const { places, width, height } = placesOf(scene, end);
  const verdicts = new Map(asked.map((one) => [one.child, one.isAccepted ? "accepted" : "rejected"]));
  const edge = (from, to, kind) => drawn("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: `edge ${kind}` });
  const parts = [];
  scene.parents.forEach((parent, node) => {
    if (parent >= 0) parts.push(edge(places[parent], places[node], verdicts.get(node) ?? "unasked"));
  });
  parts.push(edge(places[end], places.last, "drawn"));
  scene.parents.forEach((_, node) => {
    const kind = node === 0 ? "accepted" : verdicts.get(node) ?? "unasked";
    const name = named(prefixOf(scene, node));
    const text = node === 0 ? "root" : String(scene.tokens[node]);
    const at = `translate(${places[node].x} ${places[node].y})`;
    const ring = name === prefix ? [drawn("circle", { r: RADIUS + 6, class: "chosen" })] : [];
    parts.push(
      drawn("g", { transform: at, class: `node ${kind}`, onclick: () => onChoose(name) },
        ring, drawn("circle", { r: RADIUS }), drawn("text", { dy: "0.35em" }, text),
        kind === "rejected" ? drawn("path", { d: "M12 -22l10 10m0 -10l-10 10", class: "cross" }) : ""),
    );
  });
  const at = `translate(${places.last.x} ${places.last.y})`;
  parts.push(
    drawn("g", { transform: at, class: "node last" },
      drawn("rect", { x: -RADIUS, y: -RADIUS, width: 2 * RADIUS, height: 2 * RADIUS, rx: 5 }),
      drawn("text", { dy: "0.35em" }, String(tokens.at(-1)))),
  );
  const view = [-MARGIN, -MARGIN, width + 2 * MARGIN, height + 2 * MARGIN];
  const label = `The tree; accepted nodes ${path.join(", ")}, output ${named(tokens)}`;
  const style = `max-width:${view[2] * 1.15}px`;
  return drawn("svg", { viewBox: view.join(" "), role: "img", "aria-label": label, class: "tree", style }, parts);
}

// One line for each draft that was tried, and one for the last token: a coin on the masses that it is compared with.
function steps(scene, { asked, last, tokens }, coins, fault) {
  const tried = asked.map(({ node, token, before, mass, coin, isAccepted }) => {
    const where = node === 0 ? "At the root" : `After ${named(prefixOf(scene, node))}`;
    const value = fault === "V28" ? NOTHING : coins[coin];
    const verdict = isAccepted ? "accepted" : "rejected";
    const reason = isZero(scene.rows[node][token]) ? "it is impossible" : `coin ${decimals(value, 3)}, mass ${short(mass)}`;
    const segments = [[before, "gone"], [mass, verdict]];
    return el("li", { class: verdict }, el("span", {}, `${where}, draft ${token} is ${verdict}: ${reason}.`), ruler(segments, value));
  });
  const value = coins[last.coin];
  const shares = sharesOf(last.rest).map(([token, , end]) => [end, token === tokens.at(-1) ? "last" : "gone"]);
  const name = last.coin === LAST_COIN ? "last coin" : `coin of ${last.coin}`;
  const line = `The ${name}, ${decimals(value, 3)}, draws ${tokens.at(-1)} from what is left of the row.`;
  return [...tried, el("li", { class: "last" }, el("span", {}, line), ruler(shares, value))];
}

// The interval from 0 to 1, cut where its segments end, and a coin on it.
function ruler(segments, coin) {
  let start = 0;
  const parts = segments.map(([end, kind]) => {
    const [from, to] = [start, Math.min(about(end), 1)];
    start = Math.max(to, from);
    return el("span", { class: `segment ${kind}`, style: `left:${100 * from}%;width:${100 * Math.max(to - from, 0)}%` });
  });
  return el("span", { class: "ruler", "aria-hidden": "true" }, parts, el("span", { class: "coin", style: `left:${100 * about(coin)}%` }));
}
