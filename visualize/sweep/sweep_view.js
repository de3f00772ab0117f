// @ts-check
// A sweep under way or done: its progress, its cells as a table, and the conclusions. A cell
// triggers `open_cell`.
import { bring, make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-sweep");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-sweep-" + name);
  const state = { sweep: "", stopped: "" };

  /** @param {number} seconds */
  const duration = (seconds) =>
    seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;

  /** From now on the results come first: sweep.css puts them above the form. */
  function begun() {
    if ("begun" in root.dataset) return;
    root.dataset.begun = "";
    bring(root);
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    if (value.stopped) {
      if (root.dataset.done === "true" || !state.sweep) return;
      state.stopped = state.sweep;
      root.dataset.done = "true";
      part("status").textContent = "Stopped. What was measured stays; Resume goes on.";
      return;
    }
    // a part of a sweep that was stopped meanwhile
    if (value.sweep && value.sweep === state.stopped) return;
    state.sweep = value.sweep;
    state.stopped = "";
    root.dataset.done = String(Boolean(value.finished));
    if (value.sweep) begun();
    part("status").textContent = value.status;
    part("bar").max = value.total || 1;
    part("bar").value = value.done;
    part("count").textContent = value.total ? `${value.done} of ${value.total} runs` : "";
    if (value.total && value.left > 0)
      part("count").textContent += `, about ${duration(value.left)} left`;
    part("said").replaceChildren(
      ...(value.lines || []).map((/** @type {string} */ line) => make("p", "", line)),
    );
    if (value.rows) table(value.head, value.rows);
  }

  /**
   * @param {string[]} head
   * @param {{ cell: number, name: string, best: boolean, texts: string[] }[]} rows
   */
  function table(head, rows) {
    const { dataset } = /** @type {HTMLElement} */ (document.activeElement || root);
    const focused = dataset?.cell;
    const body = part("table"),
      first = make("tr");
    body.replaceChildren(first);
    for (const name of [...head, ""]) first.append(make("th", "", name));
    for (const row of rows) {
      const line = make("tr"),
        cell = make("td"),
        button = make("button", "ouro-gallery-open", "Open");
      button.type = "button";
      button.dataset.cell = String(row.cell);
      button.setAttribute("aria-label", `Open the run of ${row.name}`);
      button.addEventListener("click", () => trigger("open_cell", { cell: row.cell }));
      if (row.best) line.className = "ouro-chosen";
      for (const text of row.texts) line.append(make("td", "", text));
      cell.append(button);
      line.append(cell);
      body.append(line);
      if (String(row.cell) === focused) button.focus();
    }
  }

  paint();
  watch("value", paint);
}
