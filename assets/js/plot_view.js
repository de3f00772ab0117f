// A chart of the page. Needs dom.js, plot.js. `element`, `props`, `watch` and `trigger` come from gr.HTML.
const looks = new Map(props.looks.map((look) => [look.look, look]));
const plot = new Plot(element.querySelector(".ouro-plot"), looks, props.axis, ({ x, y, customdata }) =>
  trigger("point_select", { x, y, data: customdata }),
);

function show() {
  const value = props.value && JSON.parse(props.value);
  if (value && value.figure) plot.show(value);
}

// The run on the page has begun: what this chart shows is of another one.
if (props.later)
  document.addEventListener("ouro:begun", (event) => {
    if (plot.latest && plot.latest.run !== event.detail.run) plot.show({ run: "", figure: props.later });
  });

show();
watch("value", show);
