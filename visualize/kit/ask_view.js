// Beside the buttons of a prompt: how one asks, and whether a run of this visitor is under way.
// What is decided here is decided at once, before the server answers.
import { tell } from "./dom.js";

export function mount(element, props, watch, trigger) {
  const panel = element.closest(".ouro-main");
  const told = element.querySelector(".ouro-ask");
  const buttons = panel.querySelector(".ouro-buttons");
  const field = () => panel.querySelector(`#${props.field} textarea`);
  const button = (id) => panel.querySelector("#" + id); // mounted later than this
  const DOUBLE_CLICK_MS = 500; // its second click is no wish to stop

  const busy = () => buttons.dataset.busy !== undefined;
  const hold = (event) => {
    event.preventDefault();
    event.stopPropagation();
  };

  function asked() {
    const focused = document.activeElement === button("generate");
    const stop = button("stop");
    stop.setAttribute("aria-disabled", "true");
    setTimeout(() => stop.removeAttribute("aria-disabled"), DOUBLE_CLICK_MS);
    buttons.dataset.busy = "";
    told.textContent = "";
    if (focused) stop.focus({ preventScroll: true });
  }

  function ended() {
    const focused = document.activeElement === button("stop");
    delete buttons.dataset.busy;
    if (focused) button("generate").focus({ preventScroll: true });
  }

  // Before anybody else hears of the click.
  panel.addEventListener(
    "click",
    (event) => {
      if (event.target.closest("#stop")) {
        if (button("stop").ariaDisabled === "true") hold(event);
        else tell("ouro:stop");
      } else if (event.target.closest("#generate")) {
        if (busy()) hold(event);
        else if (field().value.trim()) tell("ouro:asked");
        else {
          hold(event);
          told.textContent =
            "The prompt is empty; write at least one character, or choose an example.";
          field().focus();
        }
      }
    },
    true,
  );

  // Enter asks; with Shift it breaks the line, as it does by itself. Gradio's field has it the
  // other way round.
  for (const kind of ["keydown", "keypress"])
    panel.addEventListener(
      kind,
      (event) => {
        if (event.key !== "Enter" || event.isComposing || event.target !== field()) return;
        if (event.shiftKey) return event.stopPropagation();
        hold(event);
        if (kind === "keydown" && !event.repeat && !busy()) button("generate").click();
      },
      true,
    );
  // A list of choices that scrolls is a stop of its own for Tab, and it is gone the moment the
  // focus leaves its field.
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    for (const list of document.querySelectorAll("ul.option-list")) list.tabIndex = -1;
  });
  // Gradio tells of keys only, not of what is pasted or cut.
  panel.addEventListener("input", (event) => {
    if (event.target !== field()) return;
    told.textContent = "";
    trigger("prompt_edit", {});
  });
  document.addEventListener("ouro:asked", asked);
  document.addEventListener("ouro:ended", ended);
}
