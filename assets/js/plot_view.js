// A chart of the page. Needs dom.js, plot.js. `element`, `props`, `watch` and `trigger` come from gr.HTML.
const looks = new Map(props.looks.map((look) => [look.look, look]));
const plot = new Plot(element.querySelector(".ouro-plot"), looks, props.axis, ({ x, y, customdata }) =>
  trigger("point_select", { x, y, data: customdata }),
);

function show() {
  const value = props.value && JSON.parse(props.value);
  if (value && value.figure) plot.show(value);
}

show();
watch("value", show);
