// @ts-check
// A Plotly chart: updated in place, in the colours of the theme, with a cursor that the charts of
// one run share. It is drawn when it is near the window and not inside a closed fold.
import { listening, make, tell } from "./dom.js";
/** @import { Figure, Listen, Looks } from "./types" */

const NEAR = "100%"; // a window above and below it
const AGAIN = 5000; // milliseconds until the library is asked for again
export const INK = "#1F2937"; // as in plots.py

export class Plot {
  /**
   * @param {HTMLElement & Record<string, any>} container
   * @param {Looks} looks
   * @param {string} library  the address of Plotly, if the page's head does not load it
   * @param {string} axis  the unit of the x axis, if the chart shares the cursor of a run
   * @param {(point: any) => void} click
   * @param {Listen} listen  that of the view, if it has one
   */
  constructor(
    container,
    looks,
    library,
    axis = "",
    click = () => {},
    listen = listening(container),
  ) {
    this.container = container;
    this.looks = looks;
    this.library = library;
    this.axis = axis;
    this.click = click;
    /** @type {any} */
    this.latest = null;
    /** @type {number | undefined} */
    this.moment = undefined;
    /** @type {(look: string) => boolean} */
    this.faded = () => false;
    this.seeks = Boolean(axis); // whether a click moves the run
    this.beyond = 0; // how far behind its moment the cursor is
    this.listening = false;
    this.near = false;
    this.due = false;
    this.drawing = false;
    this.cursor = make("div", "ouro-cursor");
    this.cursor.hidden = true;
    this.probe = make("i");
    this.probe.hidden = true;
    container.append(this.probe);
    if (!window.Plotly && library) Plot.painted().then(() => Plot.idle(() => Plot.fetch(library)));
    new IntersectionObserver(
      (seen) => {
        this.near = seen.at(-1).isIntersecting;
        this.render();
      },
      { root: document, rootMargin: NEAR }, // in a frame, a margin is that of its own document
    ).observe(container);
    listen(window, "beforeprint", () => this.render(container.clientWidth > 0));
    new ResizeObserver(() => {
      if (this.listening && container.clientWidth)
        window.Plotly.Plots.resize(container).then(() => this.point());
    }).observe(container);
    new MutationObserver(() => this.paint()).observe(document.body, {
      attributes: true,
      attributeFilter: ["class", "data-ouro-palette"],
    });
    if (axis)
      listen(document, "ouro:cursor", (event) => {
        if (!this.latest || event.detail.run !== this.latest.run) return;
        this.moment = /** @type {Record<string, any>} */ (event.detail)[axis];
        this.point();
      });
  }

  /** @param {{ run: string, figure: Figure }} value */
  show(value) {
    if (this.latest && this.latest.run !== value.run) this.moment = undefined;
    this.latest = { ...value.figure, run: value.run };
    this.paint();
  }

  paint() {
    this.owe(this.latest !== null);
    this.render();
  }

  /** @param {boolean} due */
  owe(due) {
    this.due = due;
    this.container.toggleAttribute("data-due", due);
  }

  /**
   * Draw the chart if it is due, near the window, not being drawn, and the library is loaded. Plotly
   * never ends if a drawing of the same chart begins before the last one has ended.
   * @param {boolean} near
   */
  render(near = this.near) {
    if (!this.due || !near || this.drawing) return;
    if (!window.Plotly) {
      if (this.library) this.load();
      return;
    }
    this.owe(false);
    const options = {
      displaylogo: false,
      showSendToCloud: false,
      responsive: true,
      // without a pointer that hovers it would cover the chart for good
      displayModeBar: matchMedia("(hover: none)").matches ? false : "hover",
      ...this.saving(),
    };
    this.drawing = true;
    window.Plotly.react(this.container, this.recoloured(), this.themed(), options).finally(() => {
      this.drawing = false;
      this.render();
    });
    this.container.append(this.cursor, this.probe);
    this.point();
    if (!this.listening) this.listen();
    this.quiet();
  }

  /**
   * Wait for the first paint. The library is larger than the rest of the page: it is fetched when
   * there is nothing else to do, and runs when a chart is drawn.
   * @returns {Promise<void>}
   */
  static painted() {
    return new Promise((resolve) => {
      if (!(self.PerformanceObserver && PerformanceObserver.supportedEntryTypes.includes("paint")))
        return resolve(undefined);
      new PerformanceObserver((_, observer) => resolve(observer.disconnect())).observe({
        type: "paint",
        buffered: true,
      });
    });
  }

  /** @param {() => void} act */
  static idle(act) {
    if (self.requestIdleCallback) requestIdleCallback(act, { timeout: 2000 });
    else setTimeout(act, 200);
  }

  /** @param {string} library */
  static fetch(library) {
    if (document.querySelector("[data-plotly]")) return;
    const link = Object.assign(make("link"), { rel: "prefetch", as: "script", href: library });
    if (!link.relList.supports("prefetch")) return Plot.script(library);
    link.dataset.plotly = "";
    document.head.append(link);
  }

  /**
   * Return the one script for all charts of the page.
   * @param {string} library
   * @returns {HTMLScriptElement}
   */
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

  /** Take the toolbar's buttons out of the tab order: they are for the mouse. */
  quiet() {
    for (const node of this.container.querySelectorAll("a, button, [tabindex]")) node.tabIndex = -1;
  }

  /** Return options of the toolbar, which only saves: PNG by Plotly's own button, and SVG. */
  saving() {
    const name = (this.container.dataset.label || "chart")
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .toLowerCase();
    /** @param {string} format */
    const image = (format) => ({ format, filename: name, width: 900, height: 420 });
    const svg = {
      name: "Download plot as an SVG",
      icon: window.Plotly.Icons.disk,
      click: () => window.Plotly.downloadImage(this.container, image("svg")),
    };
    const png = { ...image("png"), scale: 2 };
    return { toImageButtonOptions: png, modeBarButtons: [["toImage", svg]] };
  }

  listen() {
    this.listening = true;
    this.container.on("plotly_relayout", () => this.point());
    this.container.on("plotly_afterplot", () => this.quiet());
    this.container.on("plotly_click", (/** @type {any} */ event) => {
      const point = event.points[0];
      this.click(point);
      if (this.seeks && this.latest.run)
        tell("ouro:seek", { run: this.latest.run, [this.axis]: point.x });
    });
  }

  /**
   * Return the colour that tokens of a look have in this place, by the styles of the page.
   * @param {string} look
   */
  tone(look) {
    this.probe.dataset.look = look;
    return getComputedStyle(this.probe).getPropertyValue("--tone").trim();
  }

  recoloured() {
    const ink =
      getComputedStyle(this.container).getPropertyValue("--body-text-color").trim() || INK;
    return this.latest.data.map((/** @type {any} */ trace) => {
      const shown = { ...trace },
        look = trace.meta && this.looks.has(trace.meta.look) && trace.meta.look;
      if (look) {
        const opacity = this.faded(look) ? 0.15 : 1;
        shown.marker = { ...trace.marker, color: this.tone(look), opacity };
      }
      for (const part of ["line", "marker"])
        if (trace[part]?.color === INK) shown[part] = { ...trace[part], color: ink };
      if (trace.error_x) shown.error_x = { ...trace.error_x, color: ink };
      return shown;
    });
  }

  themed() {
    const style = getComputedStyle(this.container),
      layout = this.latest.layout;
    /**
     * @param {string} name
     * @param {string} fallback
     */
    const value = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
    const ink = value("--body-text-color", "#1f2937"),
      grid = value("--border-color-primary", "#d1d5db");
    /** @param {string} name */
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
      // Lines, and shapes above the bars, have the colour of text.
      shapes: (layout.shapes || []).map((/** @type {any} */ shape) =>
        shape.layer === "above" || shape.type === "line"
          ? { ...shape, line: { ...shape.line, color: ink } }
          : shape,
      ),
      annotations: (layout.annotations || []).map((/** @type {any} */ note) => ({
        ...note,
        font: { color: ink, ...note.font },
      })),
    };
  }

  /** @returns {{ axis: any, area: any } | null} the x axis, and the place of the chart's inside */
  get inside() {
    const { _fullLayout: drawn } = this.container;
    return drawn ? { axis: drawn.xaxis, area: drawn._size } : null;
  }

  /**
   * Move the line at the cursor of the run. It is an element, because drawing the chart again would
   * take too long.
   */
  point() {
    const { axis, area } = this.inside || {};
    const there = this.moment !== undefined && axis && area;
    const x = there ? area.l + axis.d2p(this.moment + this.beyond) : 0;
    this.cursor.hidden = !there || x < area.l - 1 || x > area.l + area.w + 1;
    if (!this.cursor.hidden)
      Object.assign(this.cursor.style, {
        transform: `translateX(${x}px)`,
        top: area.t + "px",
        height: area.h + "px",
      });
  }
}
