// @ts-check
// Why a run could not be made, below its button, until an input is changed or a run is asked for.
import { fill } from "./dom.js";
/** @import { Mount } from "./types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-fault");
  const hide = () => (root.hidden = true);
  document.addEventListener("ouro:asked", hide);
  document.addEventListener("ouro:inputs", hide);
  watch("value", () => {
    const words = props.value && JSON.parse(props.value).words;
    fill(root, words || "");
    root.hidden = !words;
  });
}
