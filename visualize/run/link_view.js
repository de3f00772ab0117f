// @ts-check
// The contents of a link, and the offer to run it.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/**
 * Facts: `button`, the id of the button that runs the inputs as they are.
 * @type {Mount}
 */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-link");
  const lines = root.querySelector(".ouro-link-lines"),
    button = root.querySelector("button");

  function paint() {
    const value = props.value && JSON.parse(props.value);
    root.hidden = !value;
    if (!value) return;
    lines.replaceChildren(...value.lines.map((/** @type {string} */ line) => make("p", "", line)));
    button.hidden = !value.offer;
  }

  const starts = () => document.getElementById(props.button);
  button.addEventListener("click", () => starts().click());
  document.addEventListener(
    "click",
    (event) => starts() && starts().contains(event.target) && (root.hidden = true),
  );
  paint();
  watch("value", paint);
}
