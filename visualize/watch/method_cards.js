// @ts-check
// Cards of the methods that most visitors want. Triggers `choose_method`.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const group = element.querySelector(".ouro-methods");
  /** @type {Map<string, HTMLButtonElement>} */
  const cards = new Map(props.cards.map((/** @type {any} */ card) => [card.id, build(card)]));
  const order = [...cards.values()];

  /** @param {{ id: string, name: string, line: string }} card */
  function build({ id, name, line }) {
    const card = make("button", "ouro-method");
    card.type = "button";
    card.setAttribute("role", "radio");
    card.append(make("b", "", name), make("span", "", line));
    card.addEventListener("click", () => {
      check(id);
      trigger("choose_method", { method: id });
    });
    return card;
  }

  /**
   * Mark the chosen card. The chosen card, or the first, is the group's tab stop.
   * @param {string} method
   */
  function check(method) {
    for (const [id, card] of cards) card.setAttribute("aria-checked", String(id === method));
    const stop = cards.get(method) || order[0];
    for (const card of order) card.tabIndex = card === stop ? 0 : -1;
  }

  group.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    /** @type {Record<string, number>} */
    const keys = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const by = keys[event.key];
    const at = order.findIndex((card) => card === document.activeElement);
    if (by === undefined || at < 0) return;
    event.preventDefault();
    const next = order[(at + by + order.length) % order.length];
    next.focus();
    next.click();
  });
  group.append(...order);
  const show = () => check(JSON.parse(props.value).method);
  show();
  watch("value", show);
}
