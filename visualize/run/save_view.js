// @ts-check
// Saving a run: the browser makes a file of the server's text, so that the server keeps none.
import { make } from "../kit/dom.js";
import { forget, handOver } from "../kit/files.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-save");
  const links = root.querySelector(".ouro-save-links");
  const told = root.querySelector(".ouro-save-said");

  for (const button of root.querySelectorAll("button"))
    button.addEventListener("click", () => {
      told.textContent = "One moment …";
      trigger("save_run", { kind: button.dataset.kind });
    });

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    forget(links);
    told.textContent = value.problem || "";
    if (value.link !== undefined) return share(value.link);
    if (value.text) handOver(links, value);
  }

  /**
   * Show a link. A script in a frame of another site may not read the address of the page around
   * it.
   * @param {string} query
   */
  function share(query) {
    const address = location.origin + location.pathname + query;
    const field = make("input", "ouro-save-address");
    Object.assign(field, { type: "text", readOnly: true, value: address });
    field.setAttribute("aria-label", "Link to these inputs");
    links.append(field);
    field.focus();
    field.select();
    if (navigator.clipboard)
      navigator.clipboard.writeText(address).then(
        () => (told.textContent = "Copied."),
        () => {},
      );
  }

  watch("value", paint);
}
