// The methods that most visitors want, as cards of which one is chosen. Triggers `choose_method`.
import { make } from "../kit/dom.js";

export function mount(element, props, watch, trigger) {
  const group = element.querySelector(".ouro-methods");
  const cards = new Map(props.cards.map((card) => [card.id, build(card)]));
  const order = [...cards.values()];

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

  // One card is the group's stop for Tab: the chosen one, or the first.
  function check(method) {
    for (const [id, card] of cards) card.setAttribute("aria-checked", String(id === method));
    const stop = cards.get(method) || order[0];
    for (const card of order) card.tabIndex = card === stop ? 0 : -1;
  }

  group.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = order.indexOf(document.activeElement);
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
