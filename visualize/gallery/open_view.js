// @ts-check
// Opening a file: the browser reads it and sends its text to the server, which keeps no copy.
import { read } from "../kit/files.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-open");
  const told = root.querySelector(".ouro-open-said");
  const input = root.querySelector("input");

  /** @param {File} file */
  async function open(file) {
    const found = await read(file, props.limit, "a trace", told);
    if (found) trigger("open_file", found);
  }

  input.addEventListener("change", () => {
    open(input.files[0]);
    input.value = "";
  });
  root.addEventListener("dragover", (/** @type {DragEvent} */ event) => event.preventDefault());
  root.addEventListener("drop", (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    open(event.dataTransfer.files[0]);
  });
  watch("value", () => (told.textContent = props.value ? JSON.parse(props.value).said : ""));
}
