// Behind a fold: which one of the charts beside it is shown, of those that the run has.
import { make } from "../kit/dom.js";

export function mount(element, props, watch) {
  const fold = element.querySelector("details");
  const pick = element.querySelector(".ouro-pick");
  const buttons = new Map(props.charts.map((chart) => [chart.id, build(chart)]));
  let shown = props.charts[0].id;

  function build({ id, label }) {
    const button = make("button", "ouro-toggle", label);
    button.type = "button";
    button.dataset.chart = id;
    button.addEventListener("click", () => choose(id));
    return button;
  }

  function choose(id) {
    shown = id;
    draw();
  }

  // The charts are components of their own; they are mounted later than this.
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
