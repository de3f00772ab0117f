// A Plotly chart updated in place. Needs dom.js. `element`, `props`, `watch` and `trigger` come from gr.HTML; Plotly from its head.
const place = element.querySelector(".ouro-plot");
const options = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: "hover" };
const looks = new Map(props.looks.map((look) => [look.look, look]));
const cursor = make("div", "ouro-cursor");
cursor.hidden = true;
let latest = null, listening = false, moment = undefined;

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
  if (!place.contains(cursor)) place.append(cursor);
  point(moment);
  if (listening) return;
  listening = true;
  place.on("plotly_relayout", () => point(moment));
  place.on("plotly_click", (event) => {
    const { x, y } = event.points[0];
    trigger("point_select", { x, y });
    if (props.axis && latest.run) tell("ouro:seek", { run: latest.run, [props.axis]: x });
  });
}

// A line at the cursor of the run that is drawn: an element of its own, because drawing the chart again would take too long.
function point(at) {
  const axis = place._fullLayout && place._fullLayout.xaxis, area = place._fullLayout && place._fullLayout._size;
  const there = at !== undefined && axis && area;
  const x = there ? area.l + axis.d2p(at) : 0;
  cursor.hidden = !there || x < area.l - 1 || x > area.l + area.w + 1;
  if (cursor.hidden) return;
  Object.assign(cursor.style, { transform: `translateX(${x}px)`, top: area.t + "px", height: area.h + "px" });
}

function show() {
  const value = props.value && JSON.parse(props.value);
  if (!value || !value.figure) return;
  if (latest && latest.run !== value.run) moment = undefined;
  latest = { ...value.figure, run: value.run };
  if (window.Plotly) paint();
  else setTimeout(show, 100);
}

show();
watch("value", show);
new ResizeObserver(() => latest && window.Plotly && window.Plotly.Plots.resize(place).then(() => point(moment))).observe(place);
if (props.axis)
  document.addEventListener("ouro:cursor", (event) => {
    if (!latest || event.detail.run !== latest.run) return;
    moment = event.detail[props.axis];
    point(moment);
  });
new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class", "data-ouro-palette"] });
