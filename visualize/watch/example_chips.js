// @ts-check
// Chips of example prompts, which run at once. A prompt of the visitor's own that one replaces
// becomes a chip, too. Triggers `choose_example`.
import { make } from "../kit/dom.js";
import { inputs } from "../kit/asked.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger, server, keep) {
  const root = element.querySelector(".ouro-chips");
  let written = ""; // by the visitor
  const own = chip("My prompt", "The prompt that you wrote", () => written);
  own.hidden = true;

  /**
   * @param {string} label
   * @param {string} note
   * @param {() => string} prompt
   * @param {object | null} settings
   */
  function chip(label, note, prompt, settings = null) {
    const node = make("button", "ouro-chip", label);
    Object.assign(node, { type: "button", title: note });
    node.addEventListener("click", () => {
      own.hidden = !written || written === prompt();
      keep(JSON.stringify({ prompt: prompt(), settings }));
      trigger("choose_example", {});
    });
    return node;
  }

  /** @type {{ prompt: string, node: HTMLElement }[]} */
  const chips = props.examples.map((/** @type {any} */ { label, note, prompt, settings }) => ({
    prompt,
    node: chip(label, note, () => prompt, settings),
  }));
  root.querySelector("a").before(own, ...chips.map(({ node }) => node));
  document.addEventListener("input", ({ target }) => {
    const field = /** @type {HTMLTextAreaElement} */ (target);
    if (field.closest("#prompt")) written = field.value.trim() ? field.value : "";
  });
  document.addEventListener("ouro:inputs", () => {
    for (const { prompt, node } of chips)
      node.setAttribute("aria-pressed", String(prompt === inputs.prompt));
    if (inputs.prompt === written) own.hidden = true;
  });
}
