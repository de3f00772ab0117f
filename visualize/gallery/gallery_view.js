// @ts-check
// The recorded runs, each with a sentence about it. A choice triggers `open_recorded`, or calls
// `props.open`.
import { make, refuse } from "../kit/dom.js";
import { looksOf, originStrip } from "../kit/origin_strip.js";
/** @import { Props, Mount } from "../kit/types" */

/**
 * Name the colours that occur in the strips.
 * @param {HTMLElement} list
 * @param {Props} props
 */
function drawKey(list, props) {
  const { entries } = JSON.parse(props.value);
  const occurring = new Set(
    entries.flatMap((/** @type {any} */ { strip }) => looksOf(strip, props.looks)),
  );
  for (const { look, glyph, label } of props.looks) {
    if (!occurring.has(look)) continue;
    const item = make("li", "ouro-key"),
      sign = make("span", "ouro-glyph", glyph);
    item.dataset.look = look;
    sign.setAttribute("aria-hidden", "true");
    item.append(sign, label);
    list.append(item);
  }
}

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const list = element.querySelector(".ouro-gallery");
  let pair = "";
  /** @type {HTMLButtonElement} */
  let clicked;
  drawKey(element.querySelector(".ouro-gallery-key"), props);

  for (const entry of JSON.parse(props.value).entries) {
    const item = make("li", "ouro-gallery-entry ouro-box"),
      button = make("button", "ouro-gallery-open", "Open");
    button.type = "button";
    button.setAttribute("aria-label", "Open: " + entry.title);
    button.addEventListener("click", () => {
      clicked = button;
      if (props.open) props.open(entry);
      else trigger("open_recorded", { name: entry.name });
    });
    if (entry.pair !== pair) list.append(make("li", "ouro-gallery-pair", (pair = entry.pair)));
    item.append(
      make("h2", "", entry.title),
      originStrip(entry.strip, props.looks),
      make("p", "", entry.words),
      make("p", "ouro-small", entry.numbers),
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
