// A Plotly chart updated in place. `element`, `props`, `watch` and `trigger` come from gr.HTML; Plotly from its head.
const place = element.querySelector(".ouro-plot");
const options = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: "hover" };
const looks = new Map(props.looks.map((look) => [look.look, look]));
let latest = null, listening = false;

const dark = () => document.body.classList.contains("dark");
const colour = (look) => (document.body.dataset.ouroPalette !== "paper" ? look.colour : dark() ? look.paper_dark : look.paper);

const recoloured = (data) =>
  data.map((trace) => {
    const look = trace.meta && looks.get(trace.meta.look);
    return look ? { ...trace, marker: { ...trace.marker, color: colour(look) } } : trace;
  });

const themed = (layout) => {
  const style = getComputedStyle(element);
  const value = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
  const ink = value("--body-text-color", "#1f2937"), grid = value("--border-color-primary", "#d1d5db");
  const axis = (name) => ({ ...layout[name], gridcolor: grid, linecolor: grid, tickcolor: grid });
  return {
    ...layout,
    xaxis: axis("xaxis"),
    yaxis: axis("yaxis"),
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: ink },
    hoverlabel: { bgcolor: value("--background-fill-primary", "#fff"), bordercolor: grid, font: { color: ink } },
    annotations: (layout.annotations || []).map((note) => ({ ...note, font: { ...note.font, color: ink } })),
  };
};

function paint() {
  if (!latest || !window.Plotly) return;
  window.Plotly.react(place, recoloured(latest.data), themed(latest.layout), options);
  if (listening) return;
  listening = true;
  place.on("plotly_click", (event) => trigger("point_select", { x: event.points[0].x, y: event.points[0].y }));
}

function draw() {
  const value = props.value && JSON.parse(props.value);
  if (!value || !value.figure) return;
  latest = value.figure;
  if (window.Plotly) paint();
  else setTimeout(draw, 100);
}

draw();
watch("value", draw);
new ResizeObserver(() => latest && window.Plotly && window.Plotly.Plots.resize(place)).observe(place);
new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class", "data-ouro-palette"] });
