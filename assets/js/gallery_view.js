// The recorded runs, each with a sentence on what it shows. A choice triggers `open_recorded`, or calls `props.open`.
import { make } from "./dom.js";

export function mount(element, props, watch, trigger) {
  const list = element.querySelector(".ouro-gallery");

  for (const entry of JSON.parse(props.value).entries) {
    const item = make("li", "ouro-gallery-entry"), button = make("button", "ouro-gallery-open", "Open");
    button.type = "button";
    button.setAttribute("aria-label", "Open: " + entry.title);
    button.addEventListener("click", () => (props.open ? props.open(entry) : trigger("open_recorded", { name: entry.name })));
    item.append(make("h2", "", entry.title), make("p", "", entry.words), make("p", "ouro-small", entry.numbers), make("p", "ouro-small", entry.pair), button);
    item.dataset.name = entry.name;
    list.append(item);
  }
}
