// @ts-check
// The keys and buttons of a prompt, and whether a run of this visitor is under way. The view
// decides at once, before the server answers.
import { differences, inputs, runLabel } from "./asked.js";
import { tell } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const panel = element.closest(".ouro-main");
  const told = element.querySelector(".ouro-ask");
  const buttons = panel.querySelector(".ouro-buttons");
  const field = () => panel.querySelector(`#${props.field} textarea`);
  // the buttons are mounted later than this view
  const button = (/** @type {string} */ id) => panel.querySelector("#" + id);
  const DOUBLE_CLICK_MS = 500; // its second click is no wish to stop

  /** Name what the button runs, and mark a run that has other inputs. */
  function compare() {
    const differs = differences(panel),
      start = button("generate");
    const other = differs && (differs.prompt || differs.method || differs.settings.length > 0);
    panel.toggleAttribute("data-differs", Boolean(other) && !busy());
    const label = runLabel(differs);
    if (start && start.textContent !== label) start.textContent = label;
  }
  function gathered() {
    if (!props.value) return;
    [inputs.prompt] = JSON.parse(props.value);
    tell("ouro:inputs");
  }

  const busy = () => buttons.dataset.busy !== undefined;
  /** @param {Event} event */
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
    compare();
  }

  function ended() {
    const focused = document.activeElement === button("stop");
    delete buttons.dataset.busy;
    if (focused) button("generate").focus({ preventScroll: true });
    compare();
  }

  // Handle the click before all other listeners.
  panel.addEventListener(
    "click",
    (/** @type {MouseEvent} */ event) => {
      const target = /** @type {Element} */ (event.target);
      if (target.closest("#stop")) {
        if (button("stop").ariaDisabled === "true") hold(event);
        else tell("ouro:stop");
      } else if (target.closest("#generate")) {
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

  // Enter asks and Shift+Enter breaks the line. Gradio's field does the opposite.
  for (const kind of ["keydown", "keypress"])
    panel.addEventListener(
      kind,
      (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" || event.isComposing || event.target !== field()) return;
        if (event.shiftKey) return event.stopPropagation();
        hold(event);
        if (kind === "keydown" && !event.repeat && !busy()) button("generate").click();
      },
      true,
    );
  // Gradio opens a list of choices when its field gets the focus, and only then. Here Tab passes a
  // closed list, whose arrow keys open it; so does a second click.
  /**
   * @param {EventTarget} field
   * @param {string} key
   */
  const press = (field, key) =>
    field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  let tabbed = false;
  document.addEventListener(
    "keydown",
    (event) => {
      tabbed = event.key === "Tab";
      if (!tabbed) return;
      // Gradio opens the list at any key, also at the one that leaves it
      if (/** @type {HTMLElement} */ (event.target).matches("input[aria-expanded]"))
        event.stopPropagation();
      for (const list of document.querySelectorAll("ul.option-list")) list.tabIndex = -1;
    },
    true,
  );
  document.addEventListener("focusin", ({ target }) => {
    const field = /** @type {HTMLElement} */ (target);
    if (!tabbed || !field.matches("input[aria-expanded]")) return;
    const close = () => tabbed && field.ariaExpanded === "true" && press(field, "Escape");
    const opening = new MutationObserver(close);
    opening.observe(field, { attributeFilter: ["aria-expanded"] });
    field.addEventListener("blur", () => opening.disconnect(), { once: true });
    close();
  });
  document.addEventListener("pointerdown", ({ target }) => {
    tabbed = false;
    const field = /** @type {HTMLElement} */ (target);
    const closed = field.ariaExpanded === "false" && field.matches("input");
    if (closed && field === document.activeElement) press(field, "ArrowDown");
  });
  panel.addEventListener("input", (/** @type {InputEvent} */ event) => {
    if (event.target !== field()) return;
    told.textContent = "";
  });
  document.addEventListener("ouro:asked", asked);
  document.addEventListener("ouro:ended", ended);
  document.addEventListener("ouro:inputs", compare);
  document.addEventListener("ouro:shown", compare);
  gathered();
  watch("value", gathered);
}
