// The second exhibit: three schedulers, of which one is right.

const NAMES = ALL_DRAFTS.map(named);
const FORM_NAMES = ["fresh", "coupled", "block, cut", "block, capped", "draws"];
const FORM_REMARKS = ["", " A scheduler may read that draft.", "", " A scheduler may read the draft after the cut, which is judged too.", ""];
const CHANCES = ["at first", "after 0", "after 1"];
const TENTHS = 10;

const bestOf = (count) => (count === 0 ? "no draft, so none is ranked" : count === 1 ? "the best draft" : `the ${count} best drafts`);

const CARDS = [
  ["before", "It ranks before it draws", (by) => `Sends ${bestOf(by)} by survival: the product of the largest probability of each row, known before a draft is drawn from it.`],
  ["after", "It ranks what it drew", (by) => `Sends ${bestOf(by)} by the product of the probabilities of the tokens that were drawn.`],
  ["own", "It budgets by this step", (by) => `Sends the 2 best drafts by survival if this step's survivals add up to ${decimals(by)} or more, and none otherwise.`],
];

function showSchedules(root, { parts, forms, moved }) {
  const [controls, stage, status] = ["controls", "stage", "status"].map((name) => root.querySelector(`.${name}`));
  const announce = announcer(status);
  const first = () => ({ chances: [...moved[0].parts], form: 0, budget: 1, least: 24 });
  let state = first();

  function showControls() {
    const chance = (place) =>
      slider({
        label: CHANCES[place % 3],
        least: 1,
        most: parts - 1,
        value: state.chances[place],
        shown: (value) => short(part(value, parts)),
        onInput(value) {
          state.chances[place] = value;
          show();
        },
      }).root;
    const set = (key, label, least, most, shown) =>
      slider({ label, least, most, value: state[key], shown, onInput: (value) => ((state[key] = value), show()) }).root;
    controls.replaceChildren(
      group("p, the target's chance of token 0", chance(0), chance(1), chance(2)),
      group("q, the draft's chance of token 0", chance(3), chance(4), chance(5)),
      group(
        "How much is sent",
        set("budget", "first two: drafts", 0, 4, String),
        set("least", "third: least sum", 0, 40, (value) => decimals(part(value, TENTHS))),
        el("button", { type: "button", onclick: reset }, "Back to the table's numbers"),
      ),
      choice({
        legend: "How drafts are accepted",
        name: "form",
        value: state.form,
        options: FORM_NAMES.map((name, form) => [form, name]),
        onChange: (form) => ((state.form = form), show()),
      }),
    );
  }

  function reset() {
    state = first();
    showControls();
    show();
    controls.querySelector("button").focus();
  }

  function show() {
    const request = requestOf(state.chances, parts);
    const found = CARDS.map(([rule, title, say]) => {
      const by = rule === "own" ? part(state.least, TENTHS) : state.budget;
      const lengths = lengthsOf(SCHEDULERS[rule](request, by));
      return { title, rule: say(by), lengths, law: jointLaw(request, lengths, state.form) };
    });
    stage.replaceChildren(el("p", { class: "form" }, `Drafts are accepted ${forms[state.form]}.${FORM_REMARKS[state.form]}`), el("div", { class: "cards" }, found.map(card)));
    announce(found.map(({ title, law }) => `${title}: off by ${written(law.distance)}`).join(". "));
  }

  function card({ title, rule, lengths, law }) {
    const isExact = isZero(law.distance);
    const sent = (a, b) => ({ text: lengths.get(`${a} | ${b}`).join("·"), tone: `sent${lengths.get(`${a} | ${b}`).reduce((x, y) => x + y)}` });
    const off = (a, b) => {
      const apart = minus(law.joint.get(`${a} | ${b}`) ?? NOTHING, law.product.get(`${a} | ${b}`));
      return { text: signed(apart), tone: isZero(apart) ? "same" : apart.n > 0n ? "more" : "less" };
    };
    const facts = [
      ["request A alone", figure(law.alone[0])],
      ["request B alone", figure(law.alone[1])],
      ["dependence", figure(law.dependence)],
      ["drafts sent", short(law.numVerified)],
      ["tokens a step", short(law.numEmitted)],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    return el(
      "article",
      { class: `card ${isExact ? "right" : "wrong"}` },
      el("h3", {}, title),
      el("p", { class: "rule" }, rule),
      el("p", { class: "headline" }, el("span", { class: "of" }, isExact ? "exact: off by" : "biased: off by"), figure(law.distance)),
      el("p", { class: "stops" }, stopsInWords(lengths)),
      matrix("Sent of A · of B, by the drafts of A (down) and B (across)", NAMES, sent),
      matrix("How much too often A (down) and B (across) output this", NAMES, off),
      el("dl", {}, facts),
    );
  }

  function stopsInWords(lengths) {
    if (state.form === DRAWS_FORM) return "The tokens are the target's own draws: whatever a scheduler reads, the law is right.";
    const lookAhead = [COUPLED_FORM, CAPPED_BLOCK_FORM].includes(state.form) ? 1 : 0;
    const found = firstUnpredictable(lengths, lookAhead);
    if (!found) return "It stops before it reads: no draft that is not judged changes what is sent.";
    const { drafts, others, chosen, otherwise, request, place } = found;
    const name = "AB"[request];
    return `It reads what it does not send. With drafts ${drafts.map(named).join(" and ")} it sends ${chosen.join(" and ")}; `
      + `with ${others.map(named).join(" and ")} it sends ${otherwise.join(" and ")}, though draft ${place + 1} of ${name} was not judged.`;
  }

  showControls();
  show();
}
