// @ts-check
// Cards of the methods that most visitors want, and a sheet of all methods. A click runs the prompt
// in the box, or triggers `choose_method` to play its recorded run.
import { make, tell } from "../kit/dom.js";
import { asksAnew, changes, inputs } from "./asked.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const panel = element.closest(".ouro-main");
  const group = element.querySelector(".ouro-methods"),
    all = element.querySelector(".ouro-all"),
    note = element.querySelector(".ouro-method-note"),
    sheet = element.querySelector(".ouro-sheet");
  /** @type {Map<string, HTMLButtonElement>} */
  const cards = new Map(
    props.cards.map((/** @type {any} */ card) => {
      const node = button(card);
      node.setAttribute("role", "radio");
      return [card.id, node];
    }),
  );
  const order = [...cards.values()];
  /** @type {Map<string, HTMLButtonElement>} */
  const entries = new Map();
  let name = ""; // of a chosen method without a card

  /** @param {{ id: string, name: string, line: string }} method */
  function button({ id, name, line }) {
    const node = make("button", "ouro-method ouro-bordered ouro-press");
    node.type = "button";
    node.title = "Run the prompt with this method";
    node.append(make("b", "", name), make("span", "", line));
    node.addEventListener("click", () => {
      sheet.close();
      choose(id);
      if (!play(id)) run();
    });
    return node;
  }

  const busy = () => panel.querySelector(".ouro-buttons[data-busy]");
  /** @param {string} method */
  const choose = (method) => tell("ouro:method", { method });

  /**
   * Play the recorded run of the prompt in the box, while a recorded run is shown and no setting is
   * changed; return whether there is one.
   * @param {string} method
   */
  function play(method) {
    const shown = panel.querySelector(".ouro-run");
    const recorded = props.recorded[inputs.prompt]?.includes(method);
    if (shown?.dataset.recorded !== "true" || !recorded || changes().length || busy()) return false;
    trigger("choose_method", { method, prompt: inputs.prompt });
    return true;
  }

  /**
   * Run the prompt in the box, unless it is empty or its run is shown; during a run, say when the
   * method runs.
   */
  function run() {
    const waits = busy() && inputs.methods.get(inputs.state.method)?.name;
    note.textContent = waits ? `${waits} is chosen: press Generate when this run has ended.` : "";
    if (busy() || !inputs.prompt.trim() || !asksAnew(panel)) return;
    setTimeout(() => panel.querySelector("#generate").click());
  }

  function check() {
    const { method } = inputs.state;
    for (const [id, card] of cards) card.setAttribute("aria-checked", String(id === method));
    for (const [id, entry] of entries) {
      entry.setAttribute("aria-pressed", String(id === method));
      const more = entry.closest("details");
      if (more && id === method) more.open = true;
    }
    name = cards.has(method) ? "" : inputs.methods.get(method)?.name || "";
    all.setAttribute("aria-pressed", String(Boolean(name)));
    all.querySelector("b").textContent = name || "All methods";
    all.querySelector("span").textContent = name ? "All methods …" : `${entries.size} of them`;
    const stop = cards.get(method) || order[0];
    for (const card of order) card.tabIndex = card === stop ? 0 : -1;
  }

  function hide() {
    const { lacking } = JSON.parse(props.value);
    inputs.lacking = lacking;
    tell("ouro:lacking");
    for (const [id, entry] of entries) entry.hidden = id in lacking;
    for (const more of element.querySelectorAll("details"))
      more.hidden = !more.querySelector("button:not([hidden])");
  }

  group.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    /** @type {Record<string, number>} */
    const keys = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const by = keys[event.key];
    const at = order.findIndex((card) => card === document.activeElement);
    if (by === undefined || at < 0) return;
    event.preventDefault();
    const next = (at + by + order.length) % order.length;
    order[next].focus();
    choose(props.cards[next].id);
    play(props.cards[next].id);
  });
  for (const { title, line, methods } of props.families) {
    const family = make("section", "ouro-family");
    family.append(make("h3", "", title), make("p", "ouro-note", line));
    const more = /** @type {HTMLDetailsElement} */ (make("details"));
    more.append(make("summary", "ouro-note", "More"));
    for (const method of methods) {
      const entry = button(method);
      entry.title = method.superseded || method.line;
      entries.set(method.id, entry);
      (method.superseded ? more : family).append(entry);
    }
    if (more.children.length > 1) family.append(more);
    element.querySelector(".ouro-families").append(family);
  }
  group.append(...order);
  all.addEventListener("click", () => sheet.showModal());
  element.querySelector(".ouro-close").addEventListener("click", () => sheet.close());
  sheet.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    if (event.target === sheet) sheet.close(); // beside it
  });
  document.addEventListener("ouro:inputs", check);
  document.addEventListener("ouro:ended", () => (note.textContent = ""));
  check();
  hide();
  watch("value", hide);
}
