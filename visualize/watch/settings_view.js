// @ts-check
// All settings of a run: those of the chosen method first, then those of every run. The component's
// value keeps what a visitor has changed, for every method.
import { foreign, make, tell } from "../kit/dom.js";
import { changes, inputs } from "./asked.js";
/** @import { Mount } from "../kit/types" */
/** @import { Setting, State } from "./asked.js" */

/**
 * A setting's element, and `put`, which shows a value in it.
 * @typedef {{ setting: Setting, node: HTMLElement, put: (value: any) => void }} Field
 */
/** A range of more steps than this has no slider. */
const MOST_STEPS = 2000;

/** @type {Mount} */
export function mount(element, props, watch, trigger, server, keep) {
  const root = element.querySelector(".ouro-settings-view");
  const own = root.querySelector(".ouro-method-settings"),
    common = root.querySelector(".ouro-run-settings");
  inputs.methods = new Map(props.methods.map((/** @type {any} */ kind) => [kind.id, kind]));
  inputs.run = props.run;
  /** @type {Field[]} */
  let fields = [];
  /** @type {Field[]} */
  const shared = [];

  const kind = () => inputs.methods.get(inputs.state.method);
  const mine = () => ({ values: {}, predicted: "", ...inputs.state.of[inputs.state.method] });

  /**
   * @param {Partial<State>} parts
   */
  function commit(parts) {
    inputs.state = { ...inputs.state, ...parts };
    keep(JSON.stringify(inputs.state));
    tell("ouro:inputs");
  }
  /** @param {object} parts */
  const change = (parts) =>
    commit({ of: { ...inputs.state.of, [inputs.state.method]: { ...mine(), ...parts } } });
  /**
   * Return values with another one; a default is left out.
   * @param {Record<string, any>} values
   * @param {Setting} setting
   * @param {any} value
   */
  function replaced(values, { name, value: first }, value) {
    const { [name]: _, ...others } = values;
    return value === first ? others : { ...others, [name]: value };
  }
  /**
   * @param {Setting} setting
   * @param {any} value
   */
  const set = (setting, value) => change({ values: replaced(mine().values, setting, value) });
  /**
   * @param {Setting} setting
   * @param {any} value
   */
  const setCommon = (setting, value) => commit({ run: replaced(inputs.state.run, setting, value) });

  /**
   * Return the state with the method and the settings that a link or a recorded run names.
   * @param {State} named
   * @returns {State}
   */
  function merged({ method, of, run }) {
    const all = { ...inputs.state.of };
    for (const [id, { values }] of Object.entries(of)) {
      all[id] = { ...all[id], values: { ...all[id]?.values } };
      for (const setting of inputs.methods.get(id).settings)
        if (setting.name in values)
          all[id].values = replaced(all[id].values, setting, values[setting.name]);
    }
    let common = inputs.state.run;
    for (const setting of inputs.run)
      if (setting.name in run) common = replaced(common, setting, run[setting.name]);
    return { method: method || inputs.state.method, of: all, run: common };
  }

  function show() {
    const value = JSON.parse(props.value);
    const before = inputs.state.method;
    const { method, of, run } = value.merge ? merged(value) : value;
    inputs.state = { method, of, run };
    if (value.merge) keep(JSON.stringify(inputs.state));
    if (before !== method) build();
    else refresh();
    tell("ouro:inputs");
  }

  /** Say that a recorded run plays with other settings than those of the next run. */
  function compare() {
    const { taken } = document.querySelector("#token-view .ouro-run")?.dataset || {};
    const note = root.querySelector(".ouro-taken");
    note.hidden = !taken;
    note.textContent = `The run on the screen has recorded settings: ${taken}. A new run takes those below.`;
  }

  function build() {
    if (!kind()) return;
    const { id, name, summary, presets, predicted, settings, memory } = kind();
    const heading = make("h3", "", name),
      note = make("p", "ouro-note", summary),
      row = make("div", "ouro-presets ouro-row");
    row.append(...presets.map((/** @type {any} */ preset) => button(id, preset)));
    fields = settings.map((/** @type {Setting} */ setting) => field(setting, set));
    own.replaceChildren(
      heading,
      note,
      ...(presets.length > 1 || settings.length ? [row] : []),
      ...fields.map(({ node }) => node),
      ...(predicted ? [prediction(id)] : []),
    );
    element.closest(".ouro-options")?.toggleAttribute("data-memory", memory);
    for (const { setting, node } of shared) node.hidden = Boolean(setting.memory && !memory);
    refresh();
  }

  /** Show the values as they are now. */
  function refresh() {
    const { values, predicted } = mine();
    for (const { setting, put } of fields) put(values[setting.name] ?? setting.value);
    for (const { setting, put } of shared) put(inputs.state.run[setting.name] ?? setting.value);
    press();
    const text = own.querySelector(".ouro-predicted textarea");
    if (text && text.value !== predicted) text.value = predicted;
  }

  /** Mark the preset that holds, and count the changes. */
  function press() {
    const { values } = mine();
    for (const { id, values: preset } of kind().presets) {
      const names = new Set([...Object.keys(values), ...Object.keys(preset)]);
      const holds = [...names].every((name) => String(values[name]) === String(preset[name]));
      own.querySelector(`#${id}-${kind().id}`)?.setAttribute("aria-pressed", String(holds));
    }
    const count = changes().length;
    root.querySelector(".ouro-reset").hidden = !count;
    for (const node of document.querySelectorAll(".ouro-settings-count"))
      node.textContent = count ? `${count} changed` : "";
  }

  /**
   * @param {string} method
   * @param {{ id: string, label: string, values: Record<string, any> }} preset
   */
  function button(method, { id, label, values }) {
    const node = make("button", "ouro-toggle", label);
    node.type = "button";
    node.id = `${id}-${method}`;
    node.addEventListener("click", () => {
      change({ values: { ...values } });
      refresh();
    });
    return node;
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
    node.append(make("span", "", label), text, make("small", "", help));
    return node;
  }

  /**
   * @param {Setting} setting
   * @param {(setting: Setting, value: any) => void} write
   * @returns {Field}
   */
  function field(setting, write) {
    const put = (/** @type {any} */ value) => {
      write(setting, value);
      press();
    };
    if (typeof setting.value === "boolean") return box(setting, put);
    return setting.low === undefined ? written(setting, put) : number(setting, put);
  }

  /**
   * @param {Setting} setting
   * @param {(value: any) => void} write
   * @returns {Field}
   */
  function box(setting, write) {
    const { label, help, name } = setting;
    const node = make("label", "ouro-setting-box ouro-press"),
      input = make("input"),
      words = make("span");
    node.id = name.replaceAll("_", "-");
    Object.assign(input, { type: "checkbox", ariaLabel: label, ariaDescription: help });
    words.append(label, make("small", "", help));
    node.append(input, words);
    input.addEventListener("change", () => write(input.checked));
    return { setting, node, put: (now) => (input.checked = now) };
  }

  /**
   * @param {Setting} setting
   * @param {(value: any) => void} write
   * @returns {Field}
   */
  function written(setting, write) {
    const { label, help, choices, most } = setting;
    const node = make("label", "ouro-setting"),
      input = make(choices ? "select" : "input", "ouro-input");
    if (choices) input.append(...choices.map((choice) => make("option", "", choice)));
    else Object.assign(input, { type: "text", maxLength: most });
    Object.assign(input, { ariaLabel: label, ariaDescription: help });
    input.addEventListener(choices ? "change" : "input", () => write(input.value));
    node.append(make("span", "", label), input, make("small", "", help));
    const put = (/** @type {string} */ now) => input.value !== now && (input.value = now);
    return { setting, node, put };
  }

  /**
   * A number with a slider. The slider of a setting that may be auto begins with this position.
   * @param {Setting} setting
   * @param {(value: any) => void} write
   * @returns {Field}
   */
  function number(setting, write) {
    const { low, high, step, label, help, auto } = setting;
    const node = make("div", "ouro-setting"),
      input = make("input", "ouro-input"),
      slider = make("input"),
      ends = make("span", "ouro-ends ouro-quiet");
    const first = auto ? low - step : low;
    Object.assign(input, { type: "number", min: low, max: high, step, ariaDescription: help });
    Object.assign(slider, { type: "range", min: first, max: high, step, ariaDescription: help });
    input.ariaLabel = `number input for ${label}`;
    slider.ariaLabel = `range slider for ${label}`;
    if (auto) input.placeholder = "auto";
    ends.append(...(auto ? [make("i", "", "auto")] : []), make("i", "", String(low)));
    ends.append(make("i", "", String(high)));
    ends.style.setProperty("--first", String(auto ? step / (high - first) : 0));
    const inside = () =>
      input.value === "" ? auto : Number(input.value) >= low && Number(input.value) <= high;
    const typed = () => (input.value === "" ? "auto" : Number(input.value));
    /** @param {any} now */
    const slide = (now) => {
      const place = now === "auto" ? first : now;
      slider.value = String(place);
      slider.ariaValueText = String(now);
      slider.style.setProperty("--at", (100 * (place - first)) / (high - first) + "%");
      input.ariaInvalid = null;
    };
    /** @param {any} now */
    const put = (now) => {
      const shown = now === "auto" ? "" : String(now);
      if (Number(input.value) !== now || input.value === "") input.value = shown;
      slide(now);
    };
    slider.addEventListener("input", () => {
      const now = auto && Number(slider.value) < low ? "auto" : Number(slider.value);
      put(now);
      write(now);
    });
    input.addEventListener("input", () => {
      if (!inside()) return void (input.ariaInvalid = "true");
      slide(typed());
      write(typed());
    });
    input.addEventListener("change", () => {
      const last = inputs.state.run[setting.name] ?? mine().values[setting.name] ?? setting.value;
      const value = input.value === "" && !auto ? last : typed();
      const whole = step >= 1 && value !== "auto" ? Math.round(value) : value;
      const now = whole === "auto" ? whole : Math.min(high, Math.max(low, whole));
      put(now);
      write(now);
    });
    node.append(make("span", "", label), input);
    if ((high - low) / step <= MOST_STEPS) node.append(slider, ends);
    node.append(make("small", "", help));
    return { setting, node, put };
  }

  for (const setting of inputs.run) {
    const { group } = setting;
    if (shared.at(-1)?.setting.group !== group) common.append(make("h3", "", group));
    const entry = field(setting, setCommon);
    shared.push(entry);
    common.append(entry.node);
  }
  root.querySelector(".ouro-reset").addEventListener("click", () => {
    commit({ of: { ...inputs.state.of, [inputs.state.method]: undefined }, run: {} });
    refresh();
  });
  const close = () => {
    const fold = document.querySelector(".ouro-settings");
    fold.open = false;
    fold.querySelector("summary").focus();
  };
  root.querySelector(".ouro-close").addEventListener("click", close);
  element
    .closest(".ouro-options")
    ?.addEventListener("keydown", (/** @type {KeyboardEvent} */ { key }) => {
      if (key === "Escape") close();
    });
  document.addEventListener("ouro:method", ({ detail: { method } }) => {
    if (method === inputs.state.method) return;
    commit({ method });
    build();
  });
  document.addEventListener("ouro:shown", compare);
  compare();
  show();
  watch("value", show);
}
