// Opening a file: it is read here and handed to the server as text, which keeps no copy of it.

export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-open");
  const told = root.querySelector(".ouro-open-said");
  const input = root.querySelector("input");

  async function open(file) {
    if (!file) return;
    if (file.size > props.limit) {
      const size = (file.size / 1e6).toFixed(1), limit = (props.limit / 1e6).toFixed(0);
      told.textContent = `That file has ${size} MB; a trace may have ${limit} MB at most.`;
      return;
    }
    told.textContent = `Reading ${file.name} …`;
    trigger("open_file", { name: file.name, text: await file.text() });
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
