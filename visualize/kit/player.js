// @ts-check
// Controls that move through the moments of a run, and the clock that plays them.
import { draw, make } from "./dom.js";

const PLAY = "Play (Space)";

/**
 * The second of a run after some seconds of playing, how long it plays, and what follows.
 * @typedef {{ at: (played: number) => number, length: number, ended: () => void }} Course
 */

/** Subclasses override `moved`, `begin`, `words` and `longest`. */
export class Player {
  /**
   * @param {HTMLElement} container
   * @param {HTMLElement} slider  an element of its own that shows the position
   */
  constructor(container, slider = null) {
    /** @type {number[][]} the last entry of each is the second of the moment */
    this.frames = [];
    /** @type {number | undefined} */
    this.timer = undefined;
    this.at = -1;
    this.follow = true;
    this.speed = 1;
    this.pace = 1; // a factor of the speed
    this.container = container;
    /** @type {any} */
    this.slider = slider || Player.range((at) => this.go(at));
    this.build(container);
    if (slider) slider.addEventListener("keydown", (event) => this.key(event));
    else this.last.after(this.slider);
  }

  /** The cursor has moved. */
  moved() {}
  /** The cursor is before the first moment. */
  begin() {}
  /**
   * The clock of a run that plays has moved.
   * @param {number} _seconds
   */
  ticked(_seconds) {}
  words() {
    return "";
  }
  /**
   * Return the longest value of `words`, in one or several lines: its width is reserved, so that
   * the controls stay in their places.
   */
  longest() {
    return this.words();
  }

  /** @param {HTMLElement} container */
  build(container) {
    /**
     * @param {string} label
     * @param {string} icon
     * @param {() => void} act
     */
    const button = (label, icon, act) => {
      const node = make("button", "ouro-step-button ouro-pill");
      node.type = "button";
      node.append(Player.icon(icon));
      node.title = label;
      node.setAttribute("aria-label", label);
      node.addEventListener("click", act);
      return node;
    };
    this.first = button("First moment (Home)", "first", () => this.go(0));
    this.back = button("One back (←)", "back", () => this.move(-1));
    this.playing = button(PLAY, "play", () => this.toggle());
    this.next = button("One on (→)", "next", () => this.move(1));
    this.last = button("Last moment (End)", "last", () => this.go(this.frames.length - 1));
    const speed = make("select", "ouro-speed ouro-pill");
    speed.setAttribute("aria-label", "Speed");
    for (const value of [0.25, 0.5, 1, 2, 4, 8])
      speed.append(new Option(value + "×", String(value), value === 1, value === 1));
    speed.addEventListener("change", () => (this.speed = Number(speed.value)));
    this.count = make("span", "ouro-count");
    this.moment = make("span", "ouro-moment ouro-quiet ouro-digits");
    this.moment.append(this.count);
    container.append(this.first, this.back, this.playing, this.next, this.last, this.moment, speed);
    container.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {(at: number) => void} go */
  static range(go) {
    const slider = make("input", "ouro-slider");
    Object.assign(slider, { type: "range", min: "0", max: "0", value: "0" });
    slider.setAttribute("aria-label", "Moment of the run");
    slider.addEventListener("input", () => go(Number(slider.value)));
    return slider;
  }

  /**
   * Return a drawn icon: not every system has these glyphs.
   * @param {string} name
   */
  static icon(name) {
    /** @type {Record<string, string>} */
    const paths = {
      first: "M3 2h2v10H3zM12 2v10L5.5 7z",
      back: "M10 2v10L3 7z",
      play: "M3 1.5v11L12 7z",
      pause: "M3 2h3v10H3zM8 2h3v10H8z",
      next: "M4 2v10l7-5z",
      last: "M2 2v10l6.5-5zM9 2h2v10H9z",
    };
    const svg = draw("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" });
    svg.append(draw("path", { d: paths[name], fill: "currentColor" }));
    return svg;
  }

  /**
   * Return whether the timeline uses the key.
   * @param {any} event
   * @returns {boolean}
   */
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.tagName === "SELECT")
      return false;
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => this.move(-1),
      ArrowRight: () => this.move(1),
      Home: () => this.go(0),
      End: () => this.go(this.frames.length - 1),
      " ": () => this.toggle(),
    };
    const act = acts[event.key];
    if (!act || (event.key === " " && event.target.tagName === "BUTTON")) return false;
    event.preventDefault();
    act();
    return true;
  }

  /** @param {number} frame */
  go(frame) {
    this.pause();
    this.set(frame);
  }

  /** @param {number} by */
  move(by) {
    this.go(this.at + by);
  }

  /** @param {number} frame */
  set(frame) {
    if (!this.frames.length) return;
    this.at = Math.max(0, Math.min(frame, this.frames.length - 1));
    this.follow = this.at === this.frames.length - 1;
    this.update();
    this.moved();
  }

  get seconds() {
    return this.at < 0 ? 0 : this.frames[this.at].at(-1);
  }

  toggle() {
    if (this.timer !== undefined) this.pause();
    else this.play();
  }

  /**
   * @param {number} ahead  seconds of playing that have passed already
   * @param {Course} course  by default at the chosen speed to the end
   */
  play(ahead = 0, course = null) {
    this.pause();
    if (!this.frames.length) return;
    if (this.at >= this.frames.length - 1) {
      this.at = -1;
      this.begin();
    }
    this.follow = false;
    let now = this.seconds + ahead,
      played = ahead,
      before = ahead ? performance.now() : undefined;
    /** @param {number} time */
    const tick = (time) => {
      const passed = before === undefined ? 0 : (time - before) / 1000;
      before = time;
      played += passed;
      now = course ? course.at(played) : now + passed * this.speed * this.pace;
      let frame = this.at;
      while (frame + 1 < this.frames.length && this.frames[frame + 1].at(-1) <= now) frame += 1;
      this.timer = requestAnimationFrame(tick);
      if (frame !== this.at) this.set(frame);
      this.ticked(now);
      if (course ? played < course.length : this.at < this.frames.length - 1) return;
      this.pause();
      course?.ended();
    };
    this.timer = requestAnimationFrame(tick);
    this.label();
  }

  pause() {
    if (this.timer !== undefined) cancelAnimationFrame(this.timer);
    this.timer = undefined;
    this.label();
  }

  label() {
    const running = this.timer !== undefined;
    this.playing.replaceChildren(Player.icon(running ? "pause" : "play"));
    this.playing.title = running ? "Pause (Space)" : PLAY;
    this.playing.setAttribute("aria-label", this.playing.title);
  }

  update() {
    const last = Math.max(0, this.frames.length - 1);
    Object.assign(this.slider, { max: String(last), value: String(Math.max(0, this.at)) });
    for (const node of [this.first, this.back, this.playing, this.next, this.last, this.slider])
      node.disabled = !this.frames.length;
    this.slider.setAttribute("aria-valuetext", this.words());
    this.count.textContent = this.words();
    this.moment.dataset.longest = this.longest();
  }
}
