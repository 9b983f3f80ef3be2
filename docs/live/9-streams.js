// The third exhibit: two streams that share noise, and the script's start.

const TWENTIETHS = 20;
const SHARING = {
  [FRESH_NOISE]: ["Fresh noise for every draw", ""],
  [RECOVERY_ON_DRAFT]: ["A rejection draws on the noise of its draft", "vllm-project/vllm 54282"],
  [BONUS_ON_DRAFT]: ["The bonus token is drawn on the last draft's noise", "local-inference-lab/vllm 205"],
  [COIN_TWICE]: ["The coin that accepts draws the last token too", ""],
};

function showStreams(root, { entries }) {
  const [controls, stage, status] = ["controls", "stage", "status"].map((name) => root.querySelector(`.${name}`));
  const announce = announcer(status);
  const examples = entries.filter((entry) => entry.target.length === 3);
  const state = { fault: RECOVERY_ON_DRAFT, p: [...examples[0].target], q: [...examples[0].proposal] };
  const biases = new Map();
  const rows = el("div");

  const options = Object.entries(SHARING).map(([fault, [label, thread]]) => {
    biases.set(fault, el("span", { class: "bias" }));
    const [repository, number] = thread.split(" ");
    const address = `https://github.com/${repository}/issues/${number}`;
    const link = thread ? [" ", el("a", { href: address, rel: "noreferrer" }, `${repository} #${number}`)] : [];
    return [fault, el("span", {}, label, link), biases.get(fault)];
  });
  const inTenths = (parts) => rowOf(parts).map((share) => decimals(share).replace(/^0/, "")).join(" ");
  const example = el(
    "select",
    { onchange: ({ target }) => begin(examples[Number(target.value)]) },
    examples.map(({ target, proposal }, place) => el("option", { value: place }, `p ${inTenths(target)}, q ${inTenths(proposal)}`)),
  );
  controls.append(
    choice({ legend: "What shares its noise, and the bias of two tokens", name: "sharing", options, value: state.fault, kind: "list",
      onChange: (fault) => ((state.fault = fault), show()) }),
    el("label", { class: "select" }, el("span", {}, "Worked rows"), example),
    rows,
  );

  function begin({ target, proposal }) {
    [state.p, state.q] = [[...target], [...proposal]];
    rows.replaceChildren(
      group("p, the target's row", rowSliders(state.p, TWENTIETHS, moved)),
      group("q, the draft's row", rowSliders(state.q, TWENTIETHS, moved)),
    );
    show();
  }

  function moved() {
    example.selectedIndex = -1;
    show();
  }

  function show() {
    const [p, q] = [rowOf(state.p), rowOf(state.q)];
    const target = targetOfTwo(p);
    for (const [fault, place] of biases) place.replaceChildren(figure(totalVariation(lawOfTwo(fault, p, q), target)));
    const law = lawOfTwo(state.fault, p, q);
    const [wanted, got] = [firstToken(target), firstToken(law)];
    const [one, two] = [totalVariation(got, wanted), totalVariation(law, target)];
    const off = (a, b) => {
      const apart = minus(law.get(`${a} ${b}`) ?? NOTHING, target.get(`${a} ${b}`) ?? NOTHING);
      return { text: signed(apart), tone: isZero(apart) ? "same" : apart.n > 0n ? "more" : "less" };
    };
    stage.replaceChildren(
      el("div", { class: "headlines" },
        el("p", { class: "headline" }, el("span", { class: "of" }, "first token off by"), figure(one)),
        el("p", { class: "headline" }, el("span", { class: "of" }, "two tokens off by"), figure(two))),
      lawTable("The exact law of the first token", wanted, got),
      matrix("How much too often two tokens come out: the first down, the second across", ["0", "1", "2"], off),
    );
    announce(`First token off by ${written(one)}, two tokens by ${written(two)}.`);
  }

  begin(examples[0]);
}

// Compares figure by figure, some at a time so that the page stays awake, and says how many agree.
function checkTables(tables, place) {
  const checks = everyCheck(tables);
  const wrong = [];
  let count = 0;
  function go() {
    const until = performance.now() + 30;
    while (performance.now() < until) {
      const { value, done } = checks.next();
      if (done) return finish();
      count += 1;
      if (value[1] !== value[2]) wrong.push(value);
    }
    setTimeout(go);
  }
  function finish() {
    const agreed = (count - wrong.length).toLocaleString("en");
    const [what, got, expected] = wrong[0] ?? [];
    const first = wrong.length ? ` First: ${what} = ${got}, but the table has ${expected}.` : "";
    place.textContent = `${agreed} of ${count.toLocaleString("en")} figures agree.${first}`;
    place.className = wrong.length ? "differ" : "agree";
  }
  go();
}

function start() {
  const tables = JSON.parse(document.getElementById("tables").textContent);
  document.documentElement.classList.add("live");
  for (const details of document.querySelectorAll("details.folded")) details.open = false;
  showTrees(document.getElementById("tree"), tables.trees, tables.threads);
  showSchedules(document.getElementById("schedulers"), tables.schedules);
  showStreams(document.getElementById("streams"), tables.streams);
  checkTables(tables, document.getElementById("agreement"));
}

start();
