// @ts-check
// A method's memory of a visitor's runs, as a file to save and to load.
import { forget, handOver, read } from "../kit/files.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-memory");
  const links = root.querySelector(".ouro-save-links");
  const told = root.querySelector(".ouro-memory-said");
  const input = root.querySelector("input");

  root.querySelector("button").addEventListener("click", () => {
    told.textContent = "One moment …";
    trigger("save_memory", {});
  });
  input.addEventListener("change", async () => {
    const found = await read(input.files[0], props.limit, "what a method keeps", told);
    input.value = "";
    if (found) trigger("load_memory", found);
  });
  watch("value", () => {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    forget(links);
    told.textContent = value.said || "";
    if (value.text) handOver(links, value);
  });
}
