// @ts-check
// The recorded runs, each with a sentence about it. A choice triggers `open_recorded`, or calls
// `props.open`.
import { make, refuse } from "../kit/dom.js";
import { drawKey, originStrip } from "../kit/origin_strip.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const list = element.querySelector(".ouro-gallery");
  let pair = "";
  /** @type {HTMLButtonElement} */
  let clicked;
  const { entries } = JSON.parse(props.value);
  const strips = entries.map((/** @type {any} */ { strip }) => strip);
  drawKey(element.querySelector(".ouro-gallery-key"), strips, props.looks);

  for (const entry of entries) {
    const item = make("li", "ouro-gallery-entry ouro-column ouro-box"),
      button = make("button", "ouro-gallery-open ouro-pill", "Open");
    button.type = "button";
    button.setAttribute("aria-label", "Open: " + entry.title);
    button.addEventListener("click", () => {
      clicked = button;
      if (props.open) props.open(entry);
      else trigger("open_recorded", { name: entry.name });
    });
    if (entry.pair !== pair)
      list.append(make("li", "ouro-gallery-pair ouro-quiet ouro-size-m", (pair = entry.pair)));
    item.append(
      make("h2", "ouro-size-m ouro-flat", entry.title),
      originStrip(entry.strip, props.looks),
      make("p", "ouro-size-m ouro-flat", entry.words),
      make("p", "ouro-small ouro-flat", entry.numbers),
      button,
    );
    item.dataset.name = entry.name;
    list.append(item);
  }
  watch?.("value", () => {
    const { refused } = JSON.parse(props.value);
    if (refused) refuse(clicked, refused);
  });
}
