// @ts-check
// The contents of a link, and the offer to run it. Triggers `open_link` at the address of a run.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/**
 * Facts: `button`, the id of the button that runs the inputs as they are.
 * @type {Mount}
 */
export function mount(element, props, watch, trigger) {
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
  function open() {
    const named = /^#run=([\w-]+)(?:&step=(\d+))?$/.exec(location.hash);
    if (named) trigger("open_link", { name: named[1], step: Number(named[2] || 0) });
  }
  addEventListener("hashchange", open);
  open();
  paint();
  watch("value", paint);
}
