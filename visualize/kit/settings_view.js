// The settings of the chosen method: presets first, then each by itself. What a visitor changes is
// kept for every method, in the component's value.
import { foreign, make } from "./dom.js";

export function mount(element, props, watch, trigger, server, keep) {
  const root = element.querySelector(".ouro-method-settings");
  const kinds = new Map(props.methods.map((kind) => [kind.id, kind]));
  let state = { method: "", of: {} },
    fields = [];

  const kind = () => kinds.get(state.method);
  const own = () => ({ auto: kind().auto, values: {}, predicted: "", ...state.of[state.method] });
  const value = ({ name, value: first }) => own().values[name] ?? first;

  function change(parts) {
    state = { ...state, of: { ...state.of, [state.method]: { ...own(), ...parts } } };
    keep(JSON.stringify(state));
  }
  const set = (name, now) => change({ values: { ...own().values, [name]: now } });

  // What a link names is taken over, the rest stays.
  function merged({ method, of }) {
    const all = { ...state.of };
    for (const [id, { values, ...more }] of Object.entries(of))
      all[id] = { ...all[id], ...more, values: { ...(all[id] || {}).values, ...values } };
    return { method, of: all };
  }

  function show() {
    const given = JSON.parse(props.value);
    const before = state.method,
      next = given.merge ? merged(given) : { method: given.method, of: given.of };
    const same = JSON.stringify(next) === JSON.stringify(state);
    state = next;
    if (given.merge) keep(JSON.stringify(state));
    if (!kind()) return;
    if (before !== state.method) build();
    else if (!same) refresh();
  }

  function build() {
    const { id, name, summary, published, predicted, settings, auto } = kind();
    const note = make("p", "ouro-note");
    note.append(make("strong", "", name + "."), " " + summary);
    const presets = make("div", "ouro-presets");
    if (auto) presets.append(automatic(id));
    if (published) presets.append(publishing(id, published));
    fields = settings.map(field);
    root.replaceChildren(
      note,
      ...(presets.hasChildNodes() ? [presets] : []),
      ...fields.map((one) => one.node),
      ...(predicted ? [prediction(id)] : []),
    );
    refresh();
  }

  // Values as they are now; what the method sets by itself is not there to be moved.
  function refresh() {
    const { auto } = own();
    const box = root.querySelector(".ouro-auto input");
    if (box) box.checked = auto;
    for (const { setting, node, put } of fields) {
      node.hidden = auto && setting.auto;
      put(value(setting));
    }
    const text = root.querySelector(".ouro-predicted textarea");
    if (text && text.value !== own().predicted) text.value = own().predicted;
  }

  function box(label, help, checked) {
    const node = make("label", "ouro-setting-box"),
      input = make("input"),
      words = make("span");
    Object.assign(input, { type: "checkbox", checked, ariaLabel: label, ariaDescription: help });
    words.append(label, make("small", "", help));
    node.append(input, words);
    return { node, input };
  }

  function automatic(id) {
    const help = "The method decides step by step how much to draft and to check.";
    const { node, input } = box("Auto", help, own().auto);
    node.id = `auto-${id}`;
    node.classList.add("ouro-auto");
    input.addEventListener("change", () => {
      change({ auto: input.checked });
      refresh();
    });
    return node;
  }

  function publishing(id, published) {
    const button = make("button", "ouro-toggle", "Use the published settings");
    button.type = "button";
    button.id = `published-${id}`;
    button.addEventListener("click", () => {
      change({ auto: false, values: { ...published } });
      refresh();
    });
    return button;
  }

  function prediction(id) {
    const node = make("label", "ouro-setting ouro-predicted"),
      text = foreign(make("textarea")),
      label = "Predicted output",
      help =
        "Yesterday's version, an outline: copied where the output follows it. It never changes " +
        "the text.";
    node.id = `prediction-${id}`;
    Object.assign(text, { rows: 3, ariaLabel: label, ariaDescription: help });
    text.addEventListener("input", () => change({ predicted: text.value }));
    node.append(make("span", "", label), make("small", "", help), text);
    return node;
  }

  // One setting: {setting, node, put}, `put` shows a value.
  function field(setting) {
    const { label } = setting;
    if (typeof setting.value === "boolean") {
      const { node, input } = box(label, setting.help, setting.value);
      input.addEventListener("change", () => set(setting.name, input.checked));
      return { setting, node, put: (now) => (input.checked = now) };
    }
    return setting.low === undefined ? written(setting, label) : slider(setting, label);
  }

  function written(setting, label) {
    const node = make("label", "ouro-setting"),
      input = make(setting.choices ? "select" : "input");
    if (setting.choices) input.append(...setting.choices.map((one) => make("option", "", one)));
    else Object.assign(input, { type: "text", maxLength: setting.most });
    Object.assign(input, { ariaLabel: label, ariaDescription: setting.help });
    input.addEventListener(setting.choices ? "change" : "input", () =>
      set(setting.name, input.value),
    );
    node.append(make("span", "", label), make("small", "", setting.help), input);
    return { setting, node, put: (now) => input.value !== now && (input.value = now) };
  }

  function slider(setting, label) {
    const { low, high, step, help, name } = setting;
    const node = make("div", "ouro-setting"),
      number = make("input"),
      range = make("input");
    for (const input of [number, range])
      Object.assign(input, { min: low, max: high, step, ariaDescription: help });
    Object.assign(number, { type: "number", ariaLabel: `number input for ${label}` });
    Object.assign(range, { type: "range", ariaLabel: `range slider for ${label}` });
    const inside = () => number.value !== "" && number.value >= low && number.value <= high;
    const slide = (now) => {
      range.value = now;
      range.style.setProperty("--at", (100 * (now - low)) / (high - low) + "%");
    };
    range.addEventListener("input", () => {
      number.value = range.value;
      slide(range.value);
      set(name, Number(range.value));
    });
    number.addEventListener("input", () => {
      if (!inside()) return;
      slide(number.value);
      set(name, Number(number.value));
    });
    number.addEventListener("change", () => {
      const typed = number.value === "" ? value(setting) : Number(number.value);
      const whole = step === 1 ? Math.round(typed) : typed;
      number.value = Math.min(high, Math.max(low, whole));
      slide(number.value);
      set(name, Number(number.value));
    });
    const put = (now) => {
      if (Number(number.value) !== now || number.value === "") number.value = now;
      slide(now);
    };
    node.append(make("span", "", label), number, make("small", "", help), range);
    return { setting, node, put };
  }

  show();
  watch("value", show);
}
