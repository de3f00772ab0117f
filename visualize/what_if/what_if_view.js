// @ts-check
// A run on another machine, modelled: choices, all numbers behind them, and the result. The server
// computes it.
import { make } from "../kit/dom.js";
import { Plot } from "../kit/plot.js";
/** @import { Mount } from "../kit/types" */

const WAIT = 150;
const UNKNOWN =
  "The server does not have this run: it was written before the page was loaded anew, or " +
  "not yet. Generate, and it is priced here.";

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-what-if");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-what-if-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const plots = {
    time: new Plot(part("time"), looks, props.plotly),
    batch: new Plot(part("batch"), looks, props.plotly),
  };
  const { machines, models, labels, chosen, batches } = props.choices;
  /** @type {Record<string, Record<string, number>>} */
  const numbers = { machine: {}, target: {}, draft: {} };
  /** @type {Record<string, HTMLElement>} */
  const boxes = { machine: make("span"), target: make("span"), draft: make("span") };
  const state = {
    stale: true,
    seen: false,
    underWay: false,
    timer: /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined),
    /** @type {Record<string, any>} */
    sizes: {},
  };
  const shown = document.getElementById("token-view");
  /**
   * Return whether the server has another run than the page: one that the browser kept, or one that
   * a link describes.
   */
  const unknown = () => Boolean(shown.querySelector('.ouro-run[data-unsaved="true"]'));

  /**
   * @param {string} name
   * @param {string} label
   * @param {[any, string][]} options
   */
  function select(name, label, options) {
    const field = make("label", "ouro-what-if-choice ouro-column ouro-size-s"),
      box = make("select", "ouro-input");
    box.name = name;
    box.setAttribute("aria-label", label);
    for (const [value, text] of options) {
      const option = make("option", "", text);
      option.value = value;
      box.append(option);
    }
    box.value = String(chosen[name]);
    box.addEventListener("change", () => {
      chosen[name] = name === "batch" ? Number(box.value) : box.value;
      const changed =
        name === "target" ? ["target", "draft"] : [name].filter((one) => one in numbers);
      for (const one of changed) numbers[one] = {};
      spread(changed);
      again();
    });
    field.append(make("span", "", label), box);
    part("choices").append(field);
  }

  /**
   * @param {{ id: string, name: string }} one
   * @returns {[string, string]}
   */
  const named = ({ id, name }) => [id, name];
  /**
   * @param {any[]} list
   * @param {string} id
   */
  const found = (list, id) => list.find((one) => one.id === id);

  /**
   * Show the numbers of the choices. The numbers of the models come from the server with a run,
   * because the run decides which model drafts.
   * @param {string[]} names
   */
  function spread(names) {
    for (const name of names) {
      const machine = name === "machine" && found(machines, chosen.machine);
      const one = machine || state.sizes[name];
      const made = one ? group(name, one, machine ? labels.machine : labels.model) : make("span");
      boxes[name].replaceWith(made);
      boxes[name] = made;
    }
  }

  /**
   * @param {string} name
   * @param {{ name: string, numbers: Record<string, number>, sources: Record<string, string> }} one
   * @param {Record<string, string>} names
   */
  function group(name, one, names) {
    const box = make("fieldset", "ouro-what-if-group ouro-column ouro-plain");
    box.append(make("legend", "", `${name}: ${one.name}`));
    for (const [key, label] of Object.entries(names)) {
      const field = make("label", "ouro-what-if-number ouro-column ouro-size-s"),
        input = make("input", "ouro-input");
      Object.assign(input, { type: "number", step: "any", min: "0", name: `${name}-${key}` });
      input.setAttribute("aria-label", `${name}: ${label}`);
      input.value = String(key in numbers[name] ? numbers[name][key] : one.numbers[key]);
      input.addEventListener("input", () => {
        const value = input.value === "" ? null : Number(input.value);
        if (value === one.numbers[key]) delete numbers[name][key];
        else numbers[name][key] = value;
        again();
      });
      field.append(make("span", "", label), input);
      if (one.sources[key]) field.append(make("small", "ouro-small", one.sources[key]));
      box.append(field);
    }
    return box;
  }

  function again() {
    state.stale = true;
    ask();
  }

  /** Ask for what is visible, and not for a run that is still being written. */
  function ask() {
    clearTimeout(state.timer);
    if (!state.stale || !state.seen || state.underWay) return;
    state.timer = setTimeout(() => {
      if (unknown()) return show();
      state.stale = false;
      trigger("ask_what_if", { asked: { ...chosen, numbers } });
    }, WAIT);
  }

  function show() {
    const value = unknown() ? { problem: UNKNOWN } : props.value && JSON.parse(props.value);
    if (!value) return;
    if (value.models && resized(value.models)) return again();
    root.dataset.problem = String(Boolean(value.problem));
    part("said").textContent = value.problem || value.said;
    part("notes").replaceChildren(
      ...(value.notes || []).map((/** @type {string} */ note) => make("li", "", note)),
    );
    part("charts").hidden = Boolean(value.problem);
    const table = root.querySelector(".ouro-table");
    table.replaceChildren();
    if (value.problem) return;
    table.append(
      row("th", ["modelled", "this run", "plain decoding"]),
      ...value.rows.map((/** @type {string[]} */ cells) => row("td", cells)),
    );
    for (const [name, plot] of Object.entries(plots)) plot.show({ run: "", figure: value[name] });
  }

  /**
   * Take the models that draft and check. Return whether the result is of other numbers.
   * @param {Record<string, any>} models
   */
  function resized(models) {
    const names = ["target", "draft"].filter(
      (name) => JSON.stringify(models[name]) !== JSON.stringify(state.sizes[name]),
    );
    const edited = names.some((name) => Object.keys(numbers[name]).length);
    state.sizes = models;
    for (const name of names) numbers[name] = {};
    spread(names);
    return edited;
  }

  /**
   * @param {"th" | "td"} tag
   * @param {string[]} cells
   */
  function row(tag, cells) {
    const line = make("tr");
    line.append(...cells.map((cell) => make(tag, "", cell)));
    return line;
  }

  /** @type {[string, string]} */
  const own = ["own", "the run's own"];
  select("machine", "machine", machines.map(named));
  select("target", "target model", [...models.map(named), own]);
  select("draft", "draft model", [["usual", "the target's usual one"], ...models.map(named), own]);
  select(
    "batch",
    "texts at once",
    batches.map((/** @type {number} */ batch) => [batch, String(batch)]),
  );
  part("numbers").append(...Object.values(boxes));
  spread(["machine"]);
  new IntersectionObserver((seen) => {
    state.seen = seen[seen.length - 1].isIntersecting;
    ask();
  }).observe(root);
  // The view of the run marks a run that the server does not have.
  new MutationObserver(again).observe(shown, { subtree: true, attributeFilter: ["data-unsaved"] });
  document.addEventListener("ouro:begun", () => (state.underWay = true));
  document.addEventListener("ouro:ended", () => {
    state.underWay = false;
    again();
  });
  show();
  watch("value", show);
}
