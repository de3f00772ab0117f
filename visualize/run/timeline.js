// @ts-check
// The moments of one run: its steps, or their verdicts, or every guess.
import { make } from "../kit/dom.js";
import { Player } from "../kit/player.js";
import { TokenText } from "./token_text.js";
/** @import { Step } from "../kit/types" */

const SLOW = 0.1; // the pace of slow motion, in which the guesses appear one by one
const NEARLY = 0.8; // of the tokens of the longest step: an early one is visible without scrolling
const STEPS = 4; // a second at most in a lesson, where each step is to be seen

export class Timeline extends Player {
  /**
   * @param {HTMLElement} container
   * @param {HTMLElement} slider  shows the position
   * @param {(step: number, phase: number) => void} show  called when the cursor moves
   * @param {(seconds: number) => void} tick  called while it plays
   */
  constructor(container, slider, show, tick) {
    super(container, slider);
    this.show = show;
    this.ticked = tick;
    this.grain = "commit";
    this.slowed = false;
    this.led = false; // a tour plays
    this.slow = make("button", "ouro-toggle ouro-slow", "slow motion");
    this.slow.type = "button";
    this.slow.addEventListener("click", () => this.slowDown(this.grain !== "token"));
    container.append(this.slow);
    this.clear();
  }

  /** @param {boolean} on */
  slowDown(on) {
    this.slowed = on;
    this.setGrain(on ? "token" : "commit");
  }

  /** @type {Player["play"]} */
  play(ahead = 0, course = null) {
    this.pace = (this.slowed ? SLOW : 1) * (this.container.closest(".ouro-learn") ? this.calm : 1);
    this.led = course !== null;
    super.play(ahead, course);
  }

  /** @param {number} frame */
  go(frame) {
    this.led = false;
    super.go(frame);
  }

  /** The factor at which the run has so many steps a second, if it has more. */
  get calm() {
    return Math.min(1, (STEPS * this.ends.at(-1)) / this.steps.length || 1);
  }

  moved() {
    const [step, phase] = this.frames[this.at];
    this.show(step, phase);
    this.ticked(this.seconds);
  }

  label() {
    super.label();
    const run = this.container.closest(".ouro-run");
    run.toggleAttribute("data-playing", this.timer !== undefined);
  }

  update() {
    super.update();
    for (const [name, value] of [
      ["min", 1],
      ["max", Math.max(1, this.frames.length)],
      ["now", this.at + 1],
    ])
      this.slider.setAttribute("aria-value" + name, String(value));
  }

  /** Return the first step that wrote nearly as much as the longest, as in tour.py. */
  get best() {
    const lengths = this.steps.map((step) => step.tokens.length);
    return lengths.findIndex((length) => length >= NEARLY * Math.max(...lengths));
  }

  begin() {
    this.show(-1, 0);
  }

  words() {
    const [step, phase] = this.frames[this.at] || [-1, 0],
      depth = step < 0 ? 0 : TokenText.depth(this.steps[step]);
    return this.told(
      step,
      phase > depth + 1 || step < 0 ? "" : phase > depth ? "verdict" : "token",
      phase,
      this.seconds,
    );
  }

  /**
   * @param {number} step
   * @param {string} stage
   * @param {number} phase
   * @param {number} seconds
   */
  told(step, stage, phase, seconds) {
    /** @type {Record<string, string>} */
    const stages = { verdict: ", verdict", token: `, guess ${phase}` };
    const said = stages[stage] || "";
    return `step ${step + 1} of ${this.steps.length}${said} · ${seconds.toFixed(2)} s`;
  }

  /** Return the longest words in any granularity. */
  longest() {
    const last = [this.steps.length - 1, this.ends[this.ends.length - 1]];
    const all = ["verdict", "token"].map((stage) =>
      this.told(last[0], stage, this.deepest, last[1]),
    );
    return all.join("\n");
  }

  clear() {
    this.pause();
    /** @type {Step[]} */
    this.steps = [];
    this.frames = []; // [step, phase, seconds at which it is reached]
    this.ends = [0];
    this.deepest = 0;
    this.at = -1;
    this.follow = true;
    this.update();
  }

  /** @param {Step[]} steps */
  append(steps) {
    for (const step of steps) {
      this.steps.push(step);
      const [prefill, draft, verify, learn, host] = step.seconds;
      const begun = this.ends[this.ends.length - 1] + prefill,
        depth = TokenText.depth(step);
      const moments = [];
      this.deepest = Math.max(this.deepest, depth);
      if (this.grain === "token")
        for (let n = 1; n <= depth; n++) moments.push([step.index, n, begun + (draft * n) / depth]);
      if (this.grain !== "commit" && depth)
        moments.push([step.index, depth + 1, begun + draft + verify]);
      const end = begun + draft + verify + learn + host;
      moments.push([step.index, depth + 2, end]);
      this.frames.push(...moments);
      this.ends.push(end);
    }
    if (this.follow) this.at = this.frames.length - 1;
    this.update();
  }

  /**
   * Take the seconds of the same steps, measured again; the cursor stays.
   * @param {Step[]} steps
   */
  retime(steps) {
    const { at } = this;
    this.steps = [];
    this.frames = [];
    this.ends = [0];
    this.append(steps);
    this.at = at;
    this.update();
  }

  /**
   * Choose another granularity: the cursor stays, or moves to the next commit.
   * @param {string} grain
   */
  setGrain(grain) {
    const [step, phase] = this.frames[this.at] || [0, Infinity];
    const steps = this.steps,
      follow = this.follow;
    this.grain = grain;
    this.slow.setAttribute("aria-pressed", String(grain === "token"));
    this.steps = [];
    this.frames = [];
    this.ends = [0];
    this.at = -1;
    this.follow = false;
    this.append(steps);
    this.follow = follow;
    const next = this.frames.findIndex(([s, p]) => s > step || (s === step && p >= phase));
    if (steps.length) this.go(next < 0 ? this.frames.length - 1 : next);
  }

  /**
   * Go to a moment of a step: "draft" when all guesses are there, "verify" when they are judged,
   * else its commit.
   * @param {number} step
   * @param {string} stage
   */
  goToMoment(step, stage) {
    const shown = this.steps[step],
      wanted =
        stage === "draft"
          ? "token"
          : stage === "verify" && this.grain === "commit"
            ? "verify"
            : this.grain;
    if (!shown) return;
    if (wanted !== this.grain) this.setGrain(wanted);
    const depth = TokenText.depth(shown),
      phase = stage === "draft" && depth ? depth : stage === "verify" ? depth + 1 : depth + 2;
    this.go(this.frames.findLastIndex(([s, p]) => s < step || (s === step && p <= phase)));
  }

  /**
   * Go to the moment at which a step is committed.
   * @param {number} step
   */
  goToStep(step) {
    this.go(this.frames.findLastIndex(([s]) => s <= step));
  }
}
