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
  let step = 0; // that the run shows
  document.addEventListener("ouro:cursor", ({ detail }) => (step = detail.step));

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
    if (value.link !== undefined) return share(value.link, value.said);
    if (value.text) handOver(links, value);
  }

  /**
   * Show a link. A script in a frame of another site may not read the address of the page around
   * it.
   * @param {string} link  a query, or the part behind # of a recorded run, which gets the step
   * @param {string} said  what the link opens
   */
  function share(link, said) {
    const at = link.startsWith("#") && step ? `&step=${step}` : "";
    const address = location.origin + location.pathname + link + at;
    told.textContent = said;
    const field = make("input", "ouro-save-address ouro-size-s ouro-framed");
    Object.assign(field, { type: "text", readOnly: true, value: address });
    field.setAttribute("aria-label", "Link");
    links.append(field);
    field.focus();
    field.select();
    if (navigator.clipboard)
      navigator.clipboard.writeText(address).then(
        () => (told.textContent = `Copied. ${said}`),
        () => {},
      );
  }

  watch("value", paint);
}
