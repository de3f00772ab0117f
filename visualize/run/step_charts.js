// @ts-check
// The two charts under a text: tokens of each step, which is also the timeline, and tokens against
// time. Steps of a run under way are added here; of a finished run the server sends both charts.
import { counted } from "../kit/dom.js";
import { Plot } from "../kit/plot.js";
import { looksOf } from "./token_text.js";
/** @import { Figure, Listen, Looks, Step } from "../kit/types" */

const DRAW_EVERY_MS = 250;
const DRAW_SHARE = 0.2; // of the time at most: the text comes first
const TITLE = "Acceptance length per step";

/**
 * What a pointer does on the bars. Steps are numbered from 0; `preview` returns whether it may be
 * seen.
 * @typedef {{ preview: (step: number | null) => boolean, jump: (step: number) => void,
 *   select: (first: number, last: number) => void }} Acts
 */

export class StepCharts {
  /**
   * @param {HTMLElement} root
   * @param {Looks} looks
   * @param {string} library  the address of Plotly
   * @param {Acts} acts
   * @param {import("./terms.js").Terms} terms
   * @param {Listen} listen
   */
  constructor(root, looks, library, acts, terms, listen) {
    this.box = root.querySelector(".ouro-graphs");
    this.title = root.querySelector(".ouro-bars-title");
    this.bars = /** @type {HTMLElement} */ (root.querySelector(".ouro-bars"));
    this.looks = looks;
    this.acts = acts;
    this.terms = terms;
    /** @type {(container: HTMLElement, axis: string) => Plot} */
    const plot = (container, axis) => new Plot(container, looks, library, axis, undefined, listen);
    this.plots = {
      acceptance: plot(this.bars, "written"),
      time: plot(root.querySelector(".ouro-curves"), "seconds"),
    };
    Object.assign(this.plots.acceptance, { seeks: false, beyond: 0.5 });
    this.clear();
    this.bars.addEventListener("pointermove", (event) => this.move(event));
    this.bars.addEventListener("pointerleave", () => this.leave());
    this.bars.addEventListener("pointerdown", (event) => this.down(event));
    this.bars.addEventListener("pointerup", (event) => this.up(event));
    this.bars.addEventListener("pointercancel", () => (this.first = undefined));
  }

  clear() {
    /** @type {Step[]} */
    this.steps = [];
    this.run = "";
    this.seconds = 0;
    this.next = 0; // when the charts of a run under way are drawn again
    clearTimeout(this.due);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.due = undefined;
    /** @type {number | undefined} where a drag has begun */
    this.first = undefined;
    /** @type {Record<string, Figure> | null} */
    this.figures = null;
    this.chosen = false; // whether steps are selected
    this.mark(0, -1);
  }

  /**
   * Show the charts of a run.
   * @param {string} run
   * @param {Record<string, Figure>} figures
   * @param {Step[]} steps  those that the charts contain
   */
  show(run, figures, steps) {
    this.run = run;
    this.figures = figures;
    this.steps = [...steps];
    this.draw();
  }

  draw() {
    clearTimeout(this.due);
    this.due = undefined;
    const begin = performance.now(),
      { acceptance, time } = this.figures;
    const written = acceptance.data.filter(({ y }) => y.some((/** @type {any} */ n) => n));
    const data = written.length ? written : acceptance.data.slice(0, 1),
      most = Math.max(...this.steps.map(({ tokens }) => tokens.length), 1);
    const yaxis = { ...acceptance.layout.yaxis, dtick: Math.ceil(most / 3) }; // whole numbers only
    const figure = { ...acceptance, data, layout: { ...acceptance.layout, yaxis } };
    this.plots.acceptance.show({ run: this.run, figure });
    this.plots.time.show({ run: this.run, figure: time });
    const took = performance.now() - begin;
    this.next = begin + Math.max(DRAW_EVERY_MS, took / DRAW_SHARE);
  }

  /** @param {(look: string) => boolean} faded */
  fade(faded) {
    for (const plot of Object.values(this.plots)) {
      plot.faded = faded;
      if (plot.latest) plot.paint();
    }
  }

  /**
   * Add steps of a run under way.
   * @param {Step[]} steps
   */
  grow(steps) {
    if (!this.figures) return;
    const [method] = this.figures.time.data;
    for (const step of steps) {
      const counts = looksOf(step),
        [prefill, ...phases] = step.seconds;
      this.steps.push(step);
      for (const { x, y, meta } of this.figures.acceptance.data) {
        x.push(step.index + 1);
        y.push(counts.get(meta.look) ?? null);
      }
      if (!method.x.length) {
        method.x.push((this.seconds = prefill));
        method.y.push(0);
      }
      this.seconds += phases.reduce((sum, phase) => sum + phase, 0);
      method.x.push(this.seconds);
      method.y.push(method.y.at(-1) + step.tokens.length);
    }
    const wait = this.next - performance.now();
    if (wait <= 0) this.draw();
    else this.due ??= setTimeout(() => this.draw(), wait);
  }

  /**
   * Return the step under a pointer.
   * @param {PointerEvent} event
   * @returns {number | undefined}
   */
  stepAt(event) {
    const { axis, area } = this.plots.acceptance.inside || {};
    if (!axis || !this.steps.length) return undefined;
    const x = event.clientX - this.bars.getBoundingClientRect().left - area.l;
    return Math.max(0, Math.min(this.steps.length - 1, Math.round(axis.p2d(x)) - 1));
  }

  /** @param {PointerEvent} event */
  static onToolbar(event) {
    return /** @type {Element} */ (event.target).closest(".modebar") !== null;
  }

  /** @param {PointerEvent} event */
  move(event) {
    const step = this.stepAt(event);
    if (StepCharts.onToolbar(event)) return this.leave();
    if (step === undefined || event.pointerType === "touch") return;
    if (this.first !== undefined && this.first !== step) this.choose(this.first, step);
    else if (!this.chosen && this.acts.preview(step)) {
      this.mark(step, step);
      this.title.textContent = this.inWords(step);
    }
  }

  leave() {
    this.acts.preview(null);
    if (!this.chosen) this.mark(0, -1);
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button || StepCharts.onToolbar(event)) return;
    this.bars.setPointerCapture(event.pointerId); // Plotly covers the page while a button is down
    this.first = this.stepAt(event);
    if (this.chosen) this.choose(0, -1);
  }

  /** @param {PointerEvent} event */
  up(event) {
    const step = this.stepAt(event);
    if (this.first !== undefined && step === this.first) this.acts.jump(step);
    else if (this.first !== undefined && step !== undefined) this.choose(this.first, step);
    this.first = undefined;
  }

  /**
   * Select the steps between two, or none.
   * @param {number} from
   * @param {number} to
   */
  choose(from, to) {
    this.chosen = to >= 0;
    const [first, last] = this.chosen && from > to ? [to, from] : [from, to];
    this.acts.preview(null);
    this.acts.select(first, last);
    this.mark(first, last);
    const steps = this.steps.slice(first, last + 1),
      tokens = steps.reduce((sum, step) => sum + step.tokens.length, 0);
    if (this.chosen)
      this.title.textContent =
        `Steps ${first + 1} to ${last + 1}: ${counted(tokens, "token")}, ` +
        `${(tokens / steps.length).toFixed(2)} per step`;
  }

  /**
   * Mark the bars of some steps, or none.
   * @param {number} first
   * @param {number} last
   */
  mark(first, last) {
    if (this.title.textContent !== TITLE) this.title.textContent = TITLE;
    this.terms.introduce(this.title);
    const { axis, area } = this.plots.acceptance.inside || {},
      some = Boolean(axis) && last >= first;
    this.bars.toggleAttribute("data-range", some);
    if (!some) return;
    this.bars.style.setProperty("--from", `${area.l + axis.d2p(first + 0.5)}px`);
    this.bars.style.setProperty("--to", `${area.l + axis.d2p(last + 1.5)}px`);
  }

  /**
   * Return how many tokens a step wrote, by their writers.
   * @param {number} index
   */
  inWords(index) {
    const step = this.steps[index];
    const parts = [...looksOf(step)].map(([look, n]) => `${n} ${this.looks.get(look).label}`);
    return `Step ${index + 1}: ${counted(step.tokens.length, "token")} (${parts.join(", ")})`;
  }
}
