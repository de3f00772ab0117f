// @ts-check
// A lane of a race: its name, its clocks, a strip of its passes, and its text.
import { counted, make } from "../kit/dom.js";
import { TokenText } from "../run/token_text.js";
/** @import { Step, Parting } from "../kit/types" */

/** @param {number} n */
export const passes = (n) => counted(n, "forward pass", "forward passes");
/** @param {number} n */
export const ordinal = (n) => ["1st", "2nd", "3rd", "4th"][n - 1];
const WAITS = "Waits for its turn: one lane runs at a time, so that none slows another down.";

export class Lane {
  /**
   * @param {string} name
   * @param {number} place  its number from 0 on
   * @param {number} length  the number of tokens that it may write
   */
  constructor(name, place, length) {
    this.name = name;
    /** @type {string[] | null} its row of the table, once it has ended */
    this.row = null;
    this.busy = false;
    this.done = 0; // steps that are shown
    /** @type {Step[]} */
    this.steps = [];
    /** @type {number[]} at the end of each step */
    this.seconds = [];
    /** @type {number[]} after each step */
    this.tokens = [];
    /** @type {Record<string, number[]>} */
    this.modelled = {};
    this.box = make("section", "ouro-lane");
    this.box.setAttribute("aria-label", name);
    const head = make("header", "ouro-lane-head");
    this.state = make("b", "ouro-lane-state");
    this.first = make("span", "ouro-lane-first");
    this.count = make("span", "ouro-lane-count");
    head.append(make("span", "ouro-lane-name", name), this.state, this.first, this.count);
    this.strip = make("div", "ouro-lane-strip");
    this.strip.setAttribute("aria-hidden", "true");
    this.note = make("p", "ouro-lane-note", place ? WAITS : "");
    this.frame = make("div", "ouro-text ouro-lane-text");
    this.frame.tabIndex = 0;
    this.frame.setAttribute("role", "group");
    this.frame.setAttribute("aria-label", "Text of " + name);
    this.box.append(head, this.strip, this.note, this.frame);
    this.text = new TokenText(this.frame);
    this.scale("passes", length);
    this.be("waiting");
  }

  /** @param {"waiting" | "running" | "done" | "stopped"} state */
  be(state) {
    this.box.dataset.state = state;
    if (state !== "done") this.state.textContent = state;
  }

  /**
   * Scale the strip to the race's clock, up to the end of the slowest lane: the width of a pass is
   * its time, and the empty rest was saved.
   * @param {string} clock
   * @param {number} whole
   */
  scale(clock, whole) {
    this.strip.style.setProperty("--whole", String(whole || 1));
    const ends = this.ends(clock);
    /** @type {HTMLElement[]} */ ([...this.strip.children]).forEach((one, n) =>
      one.style.setProperty("--width", String(ends[n] - (ends[n - 1] || 0))),
    );
  }

  /**
   * Add steps from number `from` on. Steps that are there already are the same.
   * @param {Step[]} steps
   * @param {number} from
   */
  grow(steps, from) {
    const added = steps.slice(Math.max(0, this.steps.length - from));
    if (this.box.dataset.state === "waiting") this.be("running");
    this.note.textContent = "";
    if (!added.length) return;
    this.text.append(added);
    for (const step of added) {
      const before = this.seconds.at(-1) || 0,
        written = this.tokens.at(-1) || 0;
      this.steps.push(step);
      this.seconds.push(before + step.seconds.reduce((sum, value) => sum + value, 0));
      this.tokens.push(written + step.tokens.length);
      this.strip.append(this.segment(step));
    }
    this.done = this.steps.length;
    this.follow();
  }

  /**
   * Return one forward pass, in the colours of the writers of its tokens.
   * @param {Step} step
   */
  segment(step) {
    const one = make("span", "ouro-lane-pass");
    one.style.setProperty("--width", "1");
    for (const token of step.tokens) {
      const mark = make("i");
      mark.dataset.look = token.node === undefined ? token.look : step.nodes[token.node - 1].look;
      one.append(mark);
    }
    return one;
  }

  /**
   * The lane has ended, or was measured again: the same steps with other seconds.
   * @param {{ steps: Step[], row: string[], busy: boolean, modelled?: Record<string, number[]>,
   *   parts?: Parting }} lane
   */
  finish({ steps, row, busy, modelled, parts }) {
    this.grow(steps, 0);
    let end = 0;
    this.seconds = steps.map(
      (step) => (end += step.seconds.reduce((sum, value) => sum + value, 0)),
    );
    if (parts) this.text.markParting(parts);
    this.row = row;
    this.busy = busy;
    this.modelled = modelled || {};
    this.be("done");
    this.state.textContent = "";
  }

  stop() {
    if (this.row) return;
    this.be("stopped");
    this.note.textContent = "";
  }

  /** @param {string} clock */
  ends(clock) {
    if (clock === "passes") return this.seconds.map((_, index) => index + 1);
    return this.modelled[clock] || this.seconds;
  }

  /**
   * @param {string} clock
   * @param {Lane[]} lanes
   */
  rank(clock, lanes) {
    const mine = this.ends(clock).at(-1);
    return 1 + lanes.filter((lane) => lane.ends(clock).at(-1) < mine - 1e-9).length;
  }

  /**
   * Show the lane at a time of the replay.
   * @param {number} time
   * @param {boolean} over
   * @param {string} clock
   * @param {Lane[]} lanes
   */
  show(time, over, clock, lanes) {
    const all = this.steps.length;
    this.done = over ? all : this.ends(clock).filter((end) => end <= time).length;
    if (this.done === all) this.text.showAll();
    else this.text.show(this.done - 1, Infinity);
    [...this.strip.children].forEach((one, n) => one.toggleAttribute("data-later", n >= this.done));
    this.state.textContent = this.done === all ? ordinal(this.rank(clock, lanes)) : "";
    this.label(clock);
    this.follow();
  }

  /**
   * Show the lane's figures; the clock of the race is first.
   * @param {string} clock
   */
  label(clock) {
    const done = this.done || 0,
      all = this.tokens.at(-1) || 0;
    const ends = clock === "passes" ? this.seconds : this.ends(clock);
    const tokens = done ? this.tokens[done - 1] : 0,
      seconds = done ? ends[done - 1] : 0;
    // the seconds of a lane under way are no result
    const whole = this.row && done < this.steps.length ? ` of ${ends.at(-1).toFixed(2)}` : "";
    const clocks = [
      passes(done),
      `${seconds.toFixed(2)}${whole} s${clock in this.modelled ? ", modelled" : ""}`,
    ];
    const [first, second] = clock === "passes" ? clocks : clocks.reverse();
    const rate = done ? ` · ${(tokens / done).toFixed(2)} tokens per pass` : "";
    const waits = this.box.dataset.state === "waiting";
    const written = this.row ? `${tokens} of ${counted(all, "token")}` : counted(tokens, "token");
    this.first.textContent = waits ? "" : first;
    this.count.textContent = waits ? "" : `${written} · ${second}${rate}`;
  }

  follow() {
    const last = [...(this.text.spans[(this.done || 0) - 1]?.getClientRects() || [])].at(-1);
    if (last) this.text.toBottom(last);
  }
}
