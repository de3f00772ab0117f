// Opening a file: it is read here and handed to the server as text, which keeps no copy of it.
import { read } from "../kit/files.js";

export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-open");
  const told = root.querySelector(".ouro-open-said");
  const input = root.querySelector("input");

  async function open(file) {
    const found = await read(file, props.limit, "a trace", told);
    if (found) trigger("open_file", found);
  }

  input.addEventListener("change", () => {
    open(input.files[0]);
    input.value = "";
  });
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    open(event.dataTransfer.files[0]);
  });
  watch("value", () => (told.textContent = props.value ? JSON.parse(props.value).said : ""));
}
