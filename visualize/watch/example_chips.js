// @ts-check
// Chips of example prompts, which run at once. A prompt of the visitor's own that something has
// replaced becomes a chip, too. Triggers `choose_example`.
import { make } from "../kit/dom.js";
import { inputs } from "./asked.js";
import { recall, store } from "../kit/page_storage.js";
/** @import { Mount } from "../kit/types" */

const KEY = "ouroboros-prompt";

/** @type {Mount} */
export function mount(element, props, watch, trigger, server, keep) {
  const root = element.querySelector(".ouro-chips");
  const said = root.querySelector(".ouro-chips-note");
  let written = recall(KEY) || ""; // by the visitor
  const own = chip("My prompt", "The prompt that you wrote", () => written);
  own.hidden = true;

  /**
   * @param {string} label
   * @param {string} note
   * @param {() => string} prompt
   * @param {object | null} settings
   */
  function chip(label, note, prompt, settings = null) {
    const node = make("button", "ouro-chip ouro-pill", label);
    Object.assign(node, { type: "button", title: `Runs at once. ${note}` });
    node.addEventListener("click", () => {
      const busy = element.closest(".ouro-main").querySelector(".ouro-buttons[data-busy]");
      said.textContent = busy
        ? `${label} is in the box: press Generate when this run has ended.`
        : "";
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
    if (!field.closest("#prompt")) return;
    written = field.value.trim() ? field.value : "";
    store(KEY, written);
  });
  document.addEventListener("ouro:ended", () => (said.textContent = ""));
  document.addEventListener("ouro:inputs", () => {
    for (const { prompt, node } of chips)
      node.setAttribute("aria-pressed", String(prompt === inputs.prompt));
    // What is typed is in the box a moment before it is among the inputs.
    own.hidden = !written || document.querySelector("#prompt textarea")?.value === written;
  });
}
