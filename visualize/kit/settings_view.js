// @ts-check
// The settings of the chosen method: presets first, then each setting. The component's value keeps
// a visitor's changes for every method.
import { foreign, make } from "./dom.js";
/** @import { Mount } from "./types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger, server, keep) {
  const root = element.querySelector(".ouro-method-settings");
  const kinds = new Map(props.methods.map((/** @type {any} */ kind) => [kind.id, kind]));
  /** @type {{ method: string, of: Record<string, any> }} */
  let state = { method: "", of: {} };
  /** @type {{ setting: any, node: HTMLElement, put: (value: any) => void }[]} */
  let fields = [];

  const kind = () => kinds.get(state.method);
  const own = () => ({ auto: kind().auto, values: {}, predicted: "", ...state.of[state.method] });
  /** @param {{ name: string, value: any }} setting */
  const value = ({ name, value: first }) => own().values[name] ?? first;

  /** @param {object} parts */
  function change(parts) {
    state = { ...state, of: { ...state.of, [state.method]: { ...own(), ...parts } } };
    keep(JSON.stringify(state));
  }
  /**
   * @param {string} name
   * @param {any} now
   */
  const set = (name, now) => change({ values: { ...own().values, [name]: now } });

  /**
   * Return the state with the settings that a link names.
   * @param {{ method: string, of: Record<string, any> }} link
   */
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
    const presets = make("div", "ouro-presets ouro-row");
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

  /** Show the values as they are now, without the settings that the method chooses. */
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

  /**
   * @param {string} label
   * @param {string} help
   * @param {boolean} checked
   */
  function box(label, help, checked) {
    const node = make("label", "ouro-setting-box"),
      input = make("input"),
      words = make("span");
    Object.assign(input, { type: "checkbox", checked, ariaLabel: label, ariaDescription: help });
    words.append(label, make("small", "", help));
    node.append(input, words);
    return { node, input };
  }

  /** @param {string} id */
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

  /**
   * @param {string} id
   * @param {Record<string, any>} published
   */
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

  /** @param {string} id */
  function prediction(id) {
    const node = make("label", "ouro-setting ouro-predicted"),
      text = foreign(make("textarea", "ouro-input")),
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

  /**
   * Return a setting's element, and `put`, which shows a value in it.
   * @param {any} setting
   * @returns {{ setting: any, node: HTMLElement, put: (value: any) => void }}
   */
  function field(setting) {
    const { label } = setting;
    if (typeof setting.value === "boolean") {
      const { node, input } = box(label, setting.help, setting.value);
      input.addEventListener("change", () => set(setting.name, input.checked));
      return { setting, node, put: (now) => (input.checked = now) };
    }
    return setting.low === undefined ? written(setting, label) : slider(setting, label);
  }

  /**
   * @param {any} setting
   * @param {string} label
   */
  function written(setting, label) {
    const node = make("label", "ouro-setting"),
      input = make(setting.choices ? "select" : "input", "ouro-input");
    if (setting.choices)
      input.append(...setting.choices.map((/** @type {string} */ one) => make("option", "", one)));
    else Object.assign(input, { type: "text", maxLength: setting.most });
    Object.assign(input, { ariaLabel: label, ariaDescription: setting.help });
    input.addEventListener(setting.choices ? "change" : "input", () =>
      set(setting.name, input.value),
    );
    node.append(make("span", "", label), make("small", "", setting.help), input);
    const put = (/** @type {string} */ now) => input.value !== now && (input.value = now);
    return { setting, node, put };
  }

  /**
   * @param {any} setting
   * @param {string} label
   */
  function slider(setting, label) {
    const { low, high, step, help, name } = setting;
    const node = make("div", "ouro-setting"),
      number = make("input", "ouro-input"),
      range = make("input");
    for (const input of [number, range])
      Object.assign(input, { min: low, max: high, step, ariaDescription: help });
    Object.assign(number, { type: "number", ariaLabel: `number input for ${label}` });
    Object.assign(range, { type: "range", ariaLabel: `range slider for ${label}` });
    const inside = () => number.value !== "" && number.value >= low && number.value <= high;
    /** @param {any} now */
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
      number.value = String(Math.min(high, Math.max(low, whole)));
      slide(number.value);
      set(name, Number(number.value));
    });
    /** @param {number} now */
    const put = (now) => {
      if (Number(number.value) !== now || number.value === "") number.value = String(now);
      slide(now);
    };
    node.append(make("span", "", label), number, make("small", "", help), range);
    return { setting, node, put };
  }

  show();
  watch("value", show);
}
