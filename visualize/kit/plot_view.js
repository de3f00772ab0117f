// @ts-check
// A chart of the page.
import { Plot } from "./plot.js";
/** @import { Mount } from "./types" */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const chosen = (/** @type {any} */ { x, y, customdata }) =>
    trigger("point_select", { x, y, data: customdata });
  const plot = new Plot(
    element.querySelector(".ouro-plot"),
    looks,
    props.plotly,
    props.axis,
    chosen,
  );

  function show() {
    const value = props.value && JSON.parse(props.value);
    if (value && value.figure) plot.show(value);
  }

  // Another run has begun than the one that this chart shows.
  if (props.later)
    document.addEventListener("ouro:begun", (event) => {
      if (plot.latest && plot.latest.run !== event.detail.run)
        plot.show({ run: "", figure: props.later });
    });

  show();
  watch("value", show);
}
