// A Plotly chart in an element of its own: updated in place, the theme followed, with a cursor that
// charts of one run share. It is drawn while it is near the window, and not behind a closed fold.
import { make, tell } from "./dom.js";

const NEAR = "100%"; // a window above and below it
const AGAIN = 5000; // milliseconds until the library is asked for again

export class Plot {
  // looks: Map of look by key; library: the address of Plotly, where the page's head has not loaded
  // it; axis: what lies on the x axis, where the chart shares the cursor of a run; click: told of a
  // point.
  constructor(container, looks, library, axis, click = () => {}) {
    Object.assign(this, {
      container,
      looks,
      library,
      axis,
      click,
      latest: null,
      moment: undefined,
      listening: false,
      near: false,
      due: false,
    });
    this.cursor = make("div", "ouro-cursor");
    this.cursor.hidden = true;
    if (!window.Plotly && library) Plot.painted().then(() => Plot.idle(() => Plot.fetch(library)));
    new IntersectionObserver(
      (seen) => {
        this.near = seen.at(-1).isIntersecting;
        this.render();
      },
      { root: document, rootMargin: NEAR }, // in a frame, a margin is that of its own document
    ).observe(container);
    addEventListener("beforeprint", () => this.render(container.clientWidth > 0));
    new ResizeObserver(() => {
      if (this.listening && container.clientWidth)
        window.Plotly.Plots.resize(container).then(() => this.point());
    }).observe(container);
    new MutationObserver(() => this.paint()).observe(document.body, {
      attributes: true,
      attributeFilter: ["class", "data-ouro-palette"],
    });
    if (axis)
      document.addEventListener("ouro:cursor", (event) => {
        if (!this.latest || event.detail.run !== this.latest.run) return;
        this.moment = event.detail[axis];
        this.point();
      });
  }

  // value: {run, figure: {data, layout}}
  show(value) {
    if (this.latest && this.latest.run !== value.run) this.moment = undefined;
    this.latest = { ...value.figure, run: value.run };
    this.paint();
  }

  paint() {
    this.owe(this.latest !== null);
    this.render();
  }

  owe(due) {
    this.due = due;
    this.container.toggleAttribute("data-due", due);
  }

  // What is due is drawn once the chart is near the window and the library is there.
  render(near = this.near) {
    if (!this.due || !near) return;
    if (!window.Plotly) {
      if (this.library) this.load();
      return;
    }
    this.owe(false);
    const options = {
      displaylogo: false,
      showSendToCloud: false,
      responsive: true,
      // where nothing hovers it would lie over the legend for good
      displayModeBar: matchMedia("(hover: none)").matches ? false : "hover",
      ...this.saving(),
    };
    window.Plotly.react(this.container, this.recoloured(), this.themed(), options);
    if (!this.container.contains(this.cursor)) this.container.append(this.cursor);
    this.point();
    if (!this.listening) this.listen();
    this.quiet();
  }

  // The library is larger than all the rest of the page. It is fetched after the first paint, when
  // there is nothing else to do, and runs when a chart is to be drawn.
  static painted() {
    return new Promise((resolve) => {
      if (!(self.PerformanceObserver && PerformanceObserver.supportedEntryTypes.includes("paint")))
        return resolve();
      new PerformanceObserver((_, observer) => resolve(observer.disconnect())).observe({
        type: "paint",
        buffered: true,
      });
    });
  }

  static idle(act) {
    if (self.requestIdleCallback) requestIdleCallback(act, { timeout: 2000 });
    else setTimeout(act, 200);
  }

  static fetch(library) {
    if (document.querySelector("[data-plotly]")) return;
    const link = Object.assign(make("link"), { rel: "prefetch", as: "script", href: library });
    if (!link.relList.supports("prefetch")) return Plot.script(library);
    link.dataset.plotly = "";
    document.head.append(link);
  }

  // One script for all charts of the page.
  static script(library) {
    const known = document.querySelector("script[data-plotly]");
    if (known) return known;
    const script = Object.assign(make("script"), { src: library });
    script.dataset.plotly = "";
    script.addEventListener("error", () => script.remove());
    document.head.append(script);
    return script;
  }

  load() {
    const script = Plot.script(this.library);
    script.addEventListener("load", () => this.render());
    script.addEventListener("error", () => setTimeout(() => this.render(), AGAIN));
  }

  // What a chart's toolbar does is for the mouse: its buttons are no stops on the way through the
  // page.
  quiet() {
    for (const node of this.container.querySelectorAll("a, button, [tabindex]")) node.tabIndex = -1;
  }

  // PNG is Plotly's own button; SVG is one more.
  saving() {
    const name = (this.container.dataset.label || "chart")
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .toLowerCase();
    const image = (format) => ({ format, filename: name, width: 900, height: 420 });
    const svg = {
      name: "Download plot as an SVG",
      icon: window.Plotly.Icons.disk,
      click: () => window.Plotly.downloadImage(this.container, image("svg")),
    };
    return { toImageButtonOptions: { ...image("png"), scale: 2 }, modeBarButtonsToAdd: [svg] };
  }

  listen() {
    this.listening = true;
    this.container.on("plotly_relayout", () => this.point());
    this.container.on("plotly_afterplot", () => this.quiet());
    this.container.on("plotly_click", (event) => {
      const point = event.points[0];
      this.click(point);
      if (this.axis && this.latest.run)
        tell("ouro:seek", { run: this.latest.run, [this.axis]: point.x });
    });
  }

  recoloured() {
    const ink = getComputedStyle(this.container).getPropertyValue("--body-text-color").trim();
    const dark = document.body.classList.contains("dark"),
      paper = document.body.dataset.ouroPalette === "paper";
    return this.latest.data.map((trace) => {
      const look = trace.meta && this.looks.get(trace.meta.look);
      const colour = look && (!paper ? look.colour : dark ? look.paper_dark : look.paper);
      const shown = look ? { ...trace, marker: { ...trace.marker, color: colour } } : { ...trace };
      if (trace.error_x && ink) shown.error_x = { ...trace.error_x, color: ink };
      return shown;
    });
  }

  themed() {
    const style = getComputedStyle(this.container),
      layout = this.latest.layout;
    const value = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
    const ink = value("--body-text-color", "#1f2937"),
      grid = value("--border-color-primary", "#d1d5db");
    const axis = (name) => ({ ...layout[name], gridcolor: grid, linecolor: grid, tickcolor: grid });
    return {
      ...layout,
      xaxis: axis("xaxis"),
      yaxis: axis("yaxis"),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "Inter, system-ui, sans-serif", size: 13, color: ink },
      modebar: {
        bgcolor: value("--background-fill-primary", "#fff"),
        color: value("--body-text-color-subdued", "#4b5563"),
        activecolor: ink,
      },
      hoverlabel: {
        bgcolor: value("--background-fill-primary", "#fff"),
        bordercolor: grid,
        font: { color: ink },
      },
      // What lies over the bars, and lines across a chart, are drawn in the colour of text.
      shapes: (layout.shapes || []).map((shape) =>
        shape.layer === "above" || shape.type === "line"
          ? { ...shape, line: { ...shape.line, color: ink } }
          : shape,
      ),
      annotations: (layout.annotations || []).map((note) => ({
        ...note,
        font: { color: ink, ...note.font },
      })),
    };
  }

  // A line at the cursor of the run that is drawn: an element of its own, because drawing the chart
  // again would take too long.
  point() {
    const axis = this.container._fullLayout && this.container._fullLayout.xaxis,
      area = this.container._fullLayout && this.container._fullLayout._size;
    const there = this.moment !== undefined && axis && area;
    const x = there ? area.l + axis.d2p(this.moment) : 0;
    this.cursor.hidden = !there || x < area.l - 1 || x > area.l + area.w + 1;
    if (!this.cursor.hidden)
      Object.assign(this.cursor.style, {
        transform: `translateX(${x}px)`,
        top: area.t + "px",
        height: area.h + "px",
      });
  }
}
