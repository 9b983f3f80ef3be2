// Parts of the page that all exhibits are made of.

function made(create, name, attributes, children) {
  const element = create(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity));
  return element;
}

const el = (name, attributes = {}, ...children) => made((one) => document.createElement(one), name, attributes, children);
const drawn = (name, attributes = {}, ...children) =>
  made((one) => document.createElementNS("http://www.w3.org/2000/svg", one), name, attributes, children);

const MOST_DIGITS = 13;
const decimals = (x, digits = 4) => about(x).toFixed(digits).replace(/\.?0+$/, "");
const signed = (x) => (isZero(x) ? "0" : `${x.n < 0n ? "−" : "+"}${decimals(size(x))}`);

// A fraction as it is, or where it has too many digits to be read, as a decimal number.
const short = (x) => (written(x).length > MOST_DIGITS ? `≈ ${decimals(x)}` : written(x));

function figure(x) {
  const isPlain = x.d === 1n || written(x).length > MOST_DIGITS;
  const shown = [el("span", { class: "exact" }, short(x)), ...(isPlain ? [] : [el("span", { class: "about" }, decimals(x))])];
  return el("span", { class: `figure ${isZero(x) ? "zero" : "off"}`, title: written(x) }, shown);
}

// A slider over whole numbers; shown says what a number stands for.
function slider({ label, least: min = 0, most: max, value, shown, onInput }) {
  const output = el("output", {}, shown(value));
  const input = el("input", { type: "range", min, max, value, "aria-valuetext": shown(value), oninput: () => move() });
  const show = () => {
    output.textContent = shown(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  function move() {
    onInput(Number(input.value));
    show();
  }
  return { root: el("label", { class: "slider" }, el("span", {}, label), input, output), input, show };
}

// A choice of one of several options, each a value with its label and whatever stands beside it.
function choice({ legend, name, options, value, onChange, kind = "pills" }) {
  const labels = options.map(([option, label, ...beside]) =>
    el(
      "label",
      {},
      el("input", { type: "radio", name, value: option, checked: option === value && "", onchange: () => onChange(option) }),
      el("span", {}, label),
      ...beside,
    ),
  );
  return el("fieldset", { class: `choice ${kind}` }, el("legend", {}, legend), labels);
}

const group = (legend, ...children) => el("fieldset", { class: "group" }, el("legend", {}, legend), children);

// Sliders for a row of probabilities, by weights: any but all of them may be 0.
function rowSliders(weights, most, onInput) {
  const shown = (token) => () => short(rowOf(weights)[token]);
  const sliders = weights.map((value, token) =>
    slider({
      label: `token ${token}`,
      most,
      value,
      shown: shown(token),
      onInput(weight) {
        weights[token] = weight;
        if (weights.every((one) => one === 0)) weights[token] = Number((sliders[token].input.value = 1));
        onInput();
        for (const one of sliders) one.show();
      },
    }),
  );
  return sliders.map((one) => one.root);
}

// Two laws beside each other, output by output.
function lawTable(caption, target, law) {
  const names = [...new Set([...target.keys(), ...law.keys()])].sort();
  const laws = names.map((name) => [target.get(name) ?? NOTHING, law.get(name) ?? NOTHING]);
  const longest = about(laws.flat().reduce(most, NOTHING));
  const bar = (kind, x) => el("span", { class: `bar ${kind}`, style: `width:${(100 * about(x)) / longest}%` });
  const rows = names.map((name, place) => {
    const [wanted, got] = laws[place];
    const tone = isEqual(wanted, got) ? "same" : isBelow(wanted, got) ? "more" : "less";
    return el(
      "tr",
      { class: tone },
      el("th", { scope: "row" }, name),
      el("td", { class: "bars", "aria-hidden": "true" }, bar("target", wanted), bar("emitted", got)),
      el("td", {}, short(wanted)),
      el("td", {}, short(got)),
      el("td", { class: "difference" }, signed(minus(got, wanted))),
    );
  });
  const head = ["output", "", "target", "emitted", "off by"].map((one) => el("th", { scope: "col", class: one && `of-${one}`, "aria-hidden": one === "" && "true" }, one));
  return el("table", { class: "law" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
}

// A square of cells, each with a text and a tone.
function matrix(caption, names, cell) {
  const head = el("tr", {}, el("td"), names.map((name) => el("th", { scope: "col" }, name)));
  const rows = names.map((one) =>
    el("tr", {}, el("th", { scope: "row" }, one), names.map((other) => {
      const { text, tone } = cell(one, other);
      return el("td", { class: tone }, text);
    })),
  );
  return el("table", { class: "matrix" }, el("caption", {}, caption), el("tbody", {}, head, rows));
}

// Says in words what has changed, a moment after it stops changing.
function announcer(place) {
  let waiting;
  return (text) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => (place.textContent = text), 400);
  };
}
