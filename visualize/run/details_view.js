// @ts-check
// A fold that shows one of the run's charts.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const fold = element.querySelector("details");
  const pick = element.querySelector(".ouro-pick");
  /** @type {Map<string, HTMLButtonElement>} */
  const buttons = new Map(props.charts.map((/** @type {any} */ chart) => [chart.id, build(chart)]));
  let shown = props.charts[0].id;

  /** @param {{ id: string, label: string }} chart */
  function build({ id, label }) {
    const button = make("button", "ouro-toggle", label);
    button.type = "button";
    button.dataset.chart = id;
    button.addEventListener("click", () => choose(id));
    return button;
  }

  /** @param {string} id */
  function choose(id) {
    shown = id;
    draw();
  }

  /** Show the chosen chart. The charts are components, mounted later than this one. */
  function draw() {
    for (const [id, button] of buttons) button.setAttribute("aria-pressed", String(id === shown));
    for (const id of buttons.keys()) {
      const chart = document.getElementById(`chart-${id}`);
      if (chart) chart.classList.toggle("ouro-chart-shown", fold.open && id === shown);
    }
  }

  function show() {
    const { has } = JSON.parse(props.value);
    for (const [id, button] of buttons) button.hidden = !has.includes(id);
    if (!has.includes(shown)) shown = props.charts[0].id;
    draw();
  }

  pick.append(...buttons.values());
  fold.addEventListener("toggle", draw);
  show();
  watch("value", show);
}
