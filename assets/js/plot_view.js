// A Plotly chart updated in place. `element`, `props` and `watch` come from gr.HTML; Plotly from the script in its head.
const place = element.querySelector(".ouro-plot");
const options = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: "hover" };
let latest = null;

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

function draw() {
  const value = props.value;
  if (!value || !value.figure) return;
  if (!window.Plotly) {
    setTimeout(draw, 100);
    return;
  }
  latest = value.figure;
  window.Plotly.react(place, latest.data, themed(latest.layout), options);
}

draw();
watch("value", draw);
new ResizeObserver(() => latest && window.Plotly && window.Plotly.Plots.resize(place)).observe(place);
const repaint = () => latest && window.Plotly && window.Plotly.relayout(place, themed(latest.layout));
new MutationObserver(repaint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
