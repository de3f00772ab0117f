// @ts-check
// A comparison: rows on one axis of time that sort themselves, their trade-off, and the texts of
// two of them. The chips of the form show and hide rows that were measured.
import { counted, make, quote, refuse } from "../kit/dom.js";
import { forget, handOver } from "../kit/files.js";
import { drawKey, originStrip, tokensOf } from "../kit/origin_strip.js";
import { Plot } from "../kit/plot.js";
import { CompareForm } from "./compare_form.js";
import { drawTexts } from "./two_texts.js";
/** @import { Mount } from "../kit/types" */

const PLAIN = 0;
const TICKS = 6; // at most, on the axis

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
/**
 * Return the median, a measured value: of two in the middle the lower one.
 * @param {number[]} numbers
 */
const median = (numbers) => [...numbers].sort((a, b) => a - b)[(numbers.length - 1) >> 1];
/** @param {number[]} each */
const spread = (each) =>
  each.length > 1 ? `(${Math.min(...each).toFixed(2)}–${Math.max(...each).toFixed(2)})` : "1 round";
/**
 * Return seconds in at least three digits that count, so that two texts divide to their speedup.
 * @param {number} seconds
 */
const exactly = (seconds) => `${seconds.toFixed(seconds < 10 ? 3 : 2)} s`;
/** @param {number} seconds */
const duration = (seconds) =>
  seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;

/**
 * A row that was measured.
 * @typedef {{ lane: number, each: number[], busy: boolean, text: string, plain: number,
 *   runs: string[][], clocks: Record<string, number[]>, steps: [number, string][],
 *   told: string }} Row
 */

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-compare");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-compare-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const state = {
    /** @type {any} names, values and prompts of the comparison */
    facts: null,
    /** @type {Map<number, Row>} by lane */
    rows: new Map(),
    /** @type {number[]} the lanes of A and B */
    pair: [],
    prompt: 0,
    clock: "seconds",
    running: -1,
    done: true,
    /** @type {any} */
    figure: null,
    /** @type {HTMLElement} the line of the run that was to be opened */
    opened: null,
  };
  const plot = new Plot(root.querySelector(".ouro-plot"), looks, props.plotly, "", (point) => {
    if (Number.isInteger(point.customdata)) select(point.customdata + 1);
  });
  const form = new CompareForm(root, /** @type {any} */ (props), {
    changed: () => {
      const told = part("status");
      if (told.hasAttribute("data-fault")) told.textContent = "";
      told.removeAttribute("data-fault");
      if (state.facts) draw();
    },
    measure: (plan) => trigger("measure", { plan }),
    stop: () => trigger("stop_measuring", {}),
  });
  const clock = part("clock");
  clock.append(
    new Option("in seconds", "seconds"),
    new Option("in forward passes", "passes"),
    ...props.clocks.map((/** @type {string[]} */ [id, name]) => new Option(name, id)),
  );
  clock.addEventListener("change", () => {
    state.clock = clock.value;
    draw();
  });
  const slider = part("slide").querySelector("input");
  slider.addEventListener("input", () => {
    const lane = measuredCells()[Number(slider.value)];
    if (lane) choose([state.pair.find((other) => other !== lane) ?? PLAIN, lane]);
  });
  part("save").addEventListener("click", () => trigger("save_table", {}));

  const name = (/** @type {number} */ lane) => state.facts.names[lane];
  const lanes = () =>
    state.facts.names
      .map((/** @type {string} */ _, /** @type {number} */ lane) => lane)
      .filter((/** @type {number} */ lane) => {
        const values = state.facts.values[lane] || [];
        return lane === PLAIN || !form.hides(state.facts.method, state.facts.axes, values);
      });
  const measuredCells = () =>
    lanes().filter(
      (/** @type {number} */ lane) => state.facts.values[lane]?.length && state.rows.has(lane),
    );

  /**
   * Return how long each step of a row is on the clock.
   * @param {Row} row
   */
  function lengths(row) {
    if (state.clock === "passes") return row.steps.map(() => 1);
    return row.clocks[state.clock] || row.steps.map(([seconds]) => seconds);
  }
  /** @param {number} lane */
  const total = (lane) => sum(lengths(state.rows.get(lane)));

  /**
   * Return the speedup of a row on the clock, with its spread and other figures.
   * @param {Row} row
   */
  function speed(row) {
    const passes = row.steps.length;
    const tokens = sum(row.steps.map(tokensOf));
    const beside = `${(tokens / passes).toFixed(2)}\u00a0tokens/pass`;
    if (row.lane === PLAIN)
      return { factor: "1×", spread: "the reference", beside: amount(total(PLAIN)) };
    if (state.clock === "seconds" && !row.each.length)
      return { factor: "–", beside: `${amount(total(row.lane))} · ${beside}` };
    if (state.clock === "seconds") {
      const seconds = `${exactly(total(row.lane))} (plain ${exactly(row.plain)})`;
      return {
        factor: `${median(row.each).toFixed(2)}×`,
        spread: spread(row.each),
        beside: `${seconds} · ${beside}`,
      };
    }
    const plain = state.rows.has(PLAIN) ? total(PLAIN) / total(row.lane) : NaN;
    const factor = Number.isNaN(plain) ? "–" : `${plain.toFixed(2)}×`;
    const how = state.clock === "passes" ? "fewer passes" : "modelled";
    return { factor, spread: how, beside: `${amount(total(row.lane))} · ${beside}` };
  }

  /**
   * Return the passes of a row beside those of plain decoding.
   * @param {Row} row
   */
  function passes({ steps }) {
    const plain = state.rows.get(PLAIN);
    return plain ? `${steps.length} instead of ${plain.steps.length}` : String(steps.length);
  }

  /** @param {number} time */
  const amount = (time) =>
    state.clock === "passes" ? counted(time, "forward pass", "forward passes") : exactly(time);

  /**
   * Return the row of a lane.
   * @param {number} lane
   * @param {number} whole  the end of the axis
   * @param {number} best  the lane with a ring, or -1
   */
  function drawRow(lane, whole, best) {
    const item = make("li", "ouro-compare-row ouro-press"),
      button = make("button", "ouro-compare-name ouro-size-m ouro-strong", name(lane)),
      track = make("div", "ouro-compare-track"),
      figures = make("div", "ouro-compare-figures");
    const row = state.rows.get(lane);
    item.dataset.lane = String(lane);
    item.toggleAttribute("data-best", lane === best);
    button.type = "button";
    button.disabled = !row;
    item.append(button, track, figures);
    if (!row) {
      item.dataset.state = lane === state.running ? "running" : "waiting";
      figures.textContent = state.done ? "not measured" : item.dataset.state;
      return item;
    }
    item.addEventListener("click", () => select(lane));
    const strip = originStrip(row, props.looks, lengths(row));
    strip.style.width = `${(100 * total(lane)) / whole}%`;
    track.append(strip);
    const { factor, spread: between, beside } = speed(row);
    figures.append(make("b", "", factor), make("span", "", between || ""));
    figures.append(make("small", "", beside));
    if (row.text) figures.append(make("small", "", row.text));
    if (row.busy) figures.append(make("small", "", `noisy machine; count passes: ${passes(row)}`));
    figures.toggleAttribute("data-busy", row.busy);
    if (lane === state.running) item.dataset.state = "running";
    return item;
  }

  /**
   * Return the fastest lane if each of its rounds is faster than every round of the others, and a
   * sentence about it.
   * @param {number[]} sorted  lanes that were measured, without plain decoding, the fastest first
   */
  function verdict(sorted) {
    const rows = sorted.map((lane) => state.rows.get(lane)).filter(({ each }) => each.length);
    if (state.clock !== "seconds" || !rows.length) return { best: -1, words: "" };
    const first = rows.reduce((a, b) => (median(b.each) > median(a.each) ? b : a));
    const factor = median(first.each);
    if (factor <= 1) return { best: -1, words: "Nothing here is faster than plain decoding." };
    const least = Math.min(...first.each);
    if (rows.some(({ busy }) => busy))
      return {
        best: -1,
        words: "The machine was busy: compare the forward passes, not the seconds.",
      };
    const near = rows.filter((row) => row !== first && Math.max(...row.each) >= least);
    const words = `${name(first.lane)}: ${factor.toFixed(2)}× ${spread(first.each)}`;
    if (first.each.length < 2) return { best: -1, words: `Fastest so far is ${words}.` };
    if (!near.length) return { best: first.lane, words: `Fastest is ${words}.` };
    const names = near.map(({ lane }) => name(lane)).join(", ");
    return { best: -1, words: `Fastest is ${words}, but not separable from ${names}.` };
  }

  /** @param {number} whole */
  function drawScale(whole) {
    const rough = whole / TICKS,
      power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough) || 1;
    const ticks = Array.from({ length: Math.floor(whole / step) + 1 }, (_, n) => n * step);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    part("scale").replaceChildren(
      ...ticks.map((tick) => {
        const node = make("span", "", tick.toFixed(digits));
        node.style.left = `${(100 * tick) / whole}%`;
        return node;
      }),
      make("em", "", state.clock === "passes" ? "forward passes" : "seconds"),
    );
  }

  /** Draw the rows, the fastest first behind plain decoding; they move to their new places. */
  function drawRows() {
    const list = part("rows");
    const before = new Map([...list.children].map((node) => [node.dataset.lane, node.offsetTop]));
    const focused = document.activeElement?.closest("[data-lane]")?.dataset.lane;
    const known = lanes().filter((/** @type {number} */ lane) => state.rows.has(lane));
    const unknown = lanes().filter((/** @type {number} */ lane) => !state.rows.has(lane));
    const sorted = known
      .filter((/** @type {number} */ lane) => lane !== PLAIN)
      .sort((/** @type {number} */ a, /** @type {number} */ b) => total(a) - total(b));
    const whole = Math.max(...known.map(total), 1e-9);
    const { best, words } = verdict(sorted);
    const order = [...known.filter((/** @type {number} */ lane) => lane === PLAIN), ...sorted];
    list.replaceChildren(...[...order, ...unknown].map((lane) => drawRow(lane, whole, best)));
    markPair();
    if (focused) list.querySelector(`[data-lane="${focused}"] button`)?.focus();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches)
      for (const node of list.children) {
        const moved = (before.get(node.dataset.lane) ?? node.offsetTop) - node.offsetTop;
        if (moved) node.animate({ translate: [`0 ${moved}px`, "0 0"] }, 250);
      }
    part("scale").hidden = !known.length;
    if (known.length) drawScale(whole);
    drawKey(
      part("key"),
      known.map((/** @type {number} */ lane) => state.rows.get(lane)),
      props.looks,
    );
    part("verdict").textContent = words;
  }

  /** Mark the rows that are A and B. */
  function markPair() {
    for (const item of part("rows").children) {
      const button = item.querySelector("button"),
        letter = "AB"[state.pair.indexOf(Number(item.dataset.lane))];
      button.setAttribute("aria-pressed", String(Boolean(letter)));
      button.querySelector("b")?.remove();
      if (letter) button.prepend(make("b", "ouro-compare-letter", letter));
    }
  }

  /** Draw the chart with rings around A and B. */
  function drawChart() {
    const { figure } = state;
    const { axes } = state.facts;
    root.querySelector("figure").hidden = !axes.length;
    if (!figure || !axes.length) return;
    /** @type {any[]} */
    const rings = [];
    for (const [n, lane] of state.pair.entries())
      for (const trace of figure.data)
        (trace.customdata || []).forEach((/** @type {any} */ cell, /** @type {number} */ at) => {
          if (cell === lane - 1 && (trace.error_y || trace.error_x))
            rings.push({ x: trace.x[at], y: trace.y[at], text: "AB"[n] });
          const across = Array.isArray(cell) ? cell.indexOf(lane - 1) : -1;
          if (across >= 0) rings.push({ x: trace.x[across], y: trace.y[at], text: "AB"[n] });
        });
    const ink = getComputedStyle(root).getPropertyValue("--body-text-color").trim();
    const marks = {
      x: rings.map(({ x }) => x),
      y: rings.map(({ y }) => y),
      text: rings.map(({ text }) => text),
      mode: "markers+text",
      textposition: "bottom right",
      cliponaxis: false,
      hoverinfo: "skip",
      showlegend: false,
      marker: { size: 16, color: "rgba(0,0,0,0)", line: { width: 2, color: ink } },
    };
    plot.show({ run: "", figure: { ...figure, data: [...figure.data, marks] } });
    const cells = measuredCells();
    slider.max = String(Math.max(0, cells.length - 1));
    slider.disabled = cells.length < 2;
    const at = cells.indexOf(state.pair[1]);
    if (at >= 0) slider.value = String(at);
    const lane = state.pair[1] ?? PLAIN;
    const words = at < 0 ? name(lane) : name(lane).replace(/^[^,]*, /, "");
    part("slide").hidden = slider.disabled;
    part("slide").querySelector("output").textContent = words;
    slider.setAttribute("aria-valuetext", words);
  }

  /**
   * Return a row's run of the chosen prompt.
   * @param {number} lane
   */
  function runOf(lane) {
    const { runs, steps } = state.rows.get(lane);
    const before = sum(runs.slice(0, state.prompt).map((texts) => texts.length));
    let end = 0;
    const lengths = steps.map(tokensOf).filter((count) => {
      end += count;
      return end > before;
    });
    return { texts: runs[state.prompt] || [], lengths };
  }

  function drawTwo() {
    const [a, b] = state.pair;
    const both = state.rows.has(a) && state.rows.has(b);
    part("two").hidden = !both;
    if (!both) return;
    const head = state.pair.map((lane, n) => {
      const line = make("p", "ouro-row"),
        open = make("button", "ouro-toggle", "Open in Watch");
      open.type = "button";
      open.addEventListener("click", () => {
        state.opened = line;
        trigger("open_run", { lane, prompt: state.prompt });
      });
      const { factor } = speed(state.rows.get(lane));
      line.append(make("b", "ouro-compare-letter", "AB"[n]), `${name(lane)}, ${factor}`, open);
      return line;
    });
    const { prompts } = state.facts;
    if (prompts.length > 1) {
      const pick = make("select", "ouro-input");
      pick.setAttribute("aria-label", "Prompt of the texts");
      prompts.forEach((/** @type {string} */ text, /** @type {number} */ n) =>
        pick.append(new Option(text.slice(0, 60), String(n), false, n === state.prompt)),
      );
      pick.addEventListener("change", () => {
        state.prompt = Number(pick.value);
        drawTwo();
      });
      head.push(/** @type {any} */ (pick));
    }
    part("pair").replaceChildren(...head);
    drawTexts(part("texts"), runOf(a), runOf(b));
  }

  function draw() {
    drawRows();
    drawChart();
    drawTwo();
  }

  /** @param {number[]} pair */
  function choose(pair) {
    state.pair = pair;
    markPair();
    drawChart();
    drawTwo();
  }

  /**
   * Make a row B; the row that was B is A.
   * @param {number} lane
   */
  function select(lane) {
    if (lane !== state.pair[1] && state.rows.has(lane)) choose([state.pair[1] ?? PLAIN, lane]);
  }

  /** Choose two rows where fewer are chosen: the first cell, and the fastest row. */
  function choosePair() {
    if (state.pair.length === 2 && state.pair.every((lane) => state.rows.has(lane))) return;
    const known = [...state.rows.keys()].filter((lane) => lane !== PLAIN);
    const fastest = known.reduce((a, b) => (total(b) < total(a) ? b : a), known[0]);
    const first = known.find((lane) => lane !== fastest) ?? PLAIN;
    state.pair = known.length ? [first, fastest] : [];
  }

  /** @param {any} value */
  function begin(value) {
    Object.assign(state, { facts: value, rows: new Map(), pair: [], prompt: 0, running: -1 });
    state.figure = null;
    const { badge, prompts, size, method, axes, names, values, tokens } = value;
    root.querySelector(".ouro-badge").textContent = badge;
    const [first, ...more] = prompts;
    part("prompt").replaceChildren(quote(first), more.length ? ` and ${more.length} more` : "");
    part("prompt").title = [...prompts, size].join("\n");
    const others = names.slice(values.length);
    const kinds = new Map(props.methods.map((/** @type {any} */ kind) => [kind.name, kind.id]));
    if (value.recorded)
      form.set({
        prompts,
        method,
        axes,
        tokens,
        others: others.map((/** @type {string} */ one) => kinds.get(one)),
      });
  }

  /** @param {any} value */
  function status({ status, left, notes, stopped, fault }) {
    if (fault) return fault;
    if (stopped) return "Stopped. What was measured stays.";
    if (notes) return ["Measured here.", ...notes].join(" ");
    if (status) return status;
    const doing = state.running >= 0 ? `Measuring ${name(state.running)}` : "Measuring";
    return left === undefined ? "" : `${doing} … about ${duration(left)} left`;
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    if (value.refused) return refuse(state.opened, value.refused);
    if (value.file) {
      forget(part("files"));
      handOver(part("files"), value.file);
      return;
    }
    if (value.stopped && state.done) return;
    if (value.names) begin(value);
    if (value.running !== undefined) state.running = value.running;
    state.done = Boolean(value.done || value.stopped);
    if (state.done) state.running = -1;
    for (const row of value.rows || []) state.rows.set(row.lane, row);
    if (value.figure) state.figure = value.figure;
    if (value.theory) part("theory").textContent = value.theory.join(" ");
    if (value.caption) root.querySelector("figcaption").textContent = value.caption;
    form.busy(!state.done);
    part("status").textContent = status(value);
    part("status").toggleAttribute("data-fault", Boolean(value.fault));
    root.dataset.done = String(state.done);
    choosePair();
    draw();
  }

  const palette = document.body.dataset.ouroPalette;
  if (palette) root.dataset.ouroPalette = palette;
  paint();
  watch("value", paint);
}
