// @ts-check
// Recorded runs on one clock: their texts grow, and below each is a bar of the time that it took. With
// `axes` a reader chooses one of many recorded runs, which is then beside plain decoding.
import { counted, foreign, make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

const PARTS = ["prefill", "draft", "target", "rest"];
const KEY =
  "Bars: teal, reading the prompt; blue, draft passes; orange, target passes; grey, " +
  "everything else.";
const SHORTEST = 5; // seconds that a race lasts at least

/**
 * @typedef {{ label: string, at: string[], plain?: number, seconds: number[], text?: number,
 *   counts?: number[], ends?: number[], passes: number, length: number, speedup?: number,
 *   between?: string, prompts?: number, about?: string }} Lane
 *   prompts: those whose sums the lane shows; seconds: by part; counts and ends: tokens and time of each step; plain: the lane beside it
 */

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ title: string, axes: string[], lanes: Lane[], texts: string[][], play: boolean }} */
  const { title, axes, lanes, texts, play } = JSON.parse(value);
  const controls = make("div", "ouro-race-controls ouro-size-s"),
    box = make("div"),
    said = make("p", "ouro-picture-said"),
    about = make("p", "ouro-race-about ouro-size-s"),
    note = make("figcaption"),
    time = make("input"),
    start = make("button", "", "Play");
  const total = (/** @type {Lane} */ lane) => lane.seconds.reduce((sum, one) => sum + one, 0);
  let shown = lanes.filter((lane) => !axes.length || lane === lanes[0]),
    longest = 1,
    frame = 0;
  said.setAttribute("role", "status");
  start.type = "button";
  Object.assign(time, { type: "range", min: 0, max: 1, step: 0.005, value: play ? 0 : 1 });
  time.setAttribute("aria-label", "Time");

  /** Offer the recorded values of each axis; those before it are chosen. */
  const selects = axes.map((name, axis) => {
    const label = make("label", "", name),
      select = make("select", "ouro-input");
    select.addEventListener("change", () => choose(axis));
    label.append(select);
    controls.append(label);
    return select;
  });

  /** @param {number} axis  the one that a reader has changed, -1 at first */
  function choose(axis) {
    const wanted = axis < 0 ? lanes.find((lane) => lane.speedup).at : selects.map((s) => s.value);
    let rest = lanes.filter((lane) => lane.speedup);
    selects.forEach((select, n) => {
      const values = [...new Set(rest.map((lane) => lane.at[n]))];
      select.replaceChildren(...values.map((text) => new Option(text, text)));
      select.value = values.includes(wanted[n]) ? wanted[n] : values[0];
      select.disabled = values.length < 2;
      rest = rest.filter((lane) => lane.at[n] === select.value);
    });
    shown = [lanes[rest[0].plain], rest[0]];
    paint();
  }

  /**
   * @param {Lane} lane
   * @param {number} number
   */
  function row(lane, number) {
    const node = make("section", "ouro-race-lane"),
      head = make("p", "ouro-race-name ouro-strong ouro-digits", lane.label),
      track = make("div", "ouro-race-track"),
      run = make("span", "ouro-race-run");
    node.dataset.part = ["upper", "lower second", "lower third"][number];
    PARTS.forEach((part, n) => {
      const piece = make("i");
      piece.dataset.part = part;
      piece.style.width = (100 * lane.seconds[n]) / total(lane) + "%";
      run.append(piece);
    });
    run.style.width = (100 * total(lane)) / longest + "%";
    track.append(run);
    node.append(head, track);
    if (lane.counts) {
      const text = foreign(make("div", "ouro-race-text ouro-framed ouro-size-s ouro-mono"));
      text.tabIndex = 0;
      text.setAttribute("role", "group");
      text.setAttribute("aria-label", `Text of ${lane.label}`);
      head.after(text);
    }
    return node;
  }

  function paint() {
    longest = Math.max(...shown.map(total));
    box.replaceChildren(...shown.map(row));
    const best = shown[shown.length - 1];
    said.textContent =
      `${best.label}: ${best.length.toFixed(2)} tokens per pass of the target, ` +
      `${best.speedup.toFixed(2)}× as fast as plain decoding` +
      (best.between ? ` ${best.between}.` : ".");
    const slower = SHORTEST / longest;
    const pace = slower > 1 ? ` Play is ${slower.toFixed(0)} times slower than the run was.` : "";
    const sums = best.prompts ? ` Sums over ${counted(best.prompts, "prompt")}.` : "";
    about.textContent = best.about || "";
    note.textContent = `${title}${sums} ${KEY}` + (best.counts ? pace : "");
    move();
  }

  /** Show the moment of the slider. */
  function move() {
    const now = Number(time.value) * longest;
    said.style.visibility = Number(time.value) < 1 ? "hidden" : "";
    shown.forEach((lane, n) => {
      const node = box.children[n],
        over = now >= total(lane) - 1e-6;
      const run = /** @type {HTMLElement} */ (node.querySelector(".ouro-race-run"));
      run.style.clipPath = `inset(0 ${Math.max(0, 100 - (100 * now) / total(lane))}% 0 0)`;
      const steps = lane.ends ? lane.ends.filter((end) => end <= now + 1e-6).length : 0;
      const done = over ? total(lane).toFixed(2) + " s" : now.toFixed(2) + " s";
      node.firstElementChild.textContent =
        `${lane.label}: ${done}` +
        (over ? `, ${counted(lane.passes, "target pass", "target passes")}` : "");
      if (!lane.counts) return;
      const text = node.querySelector(".ouro-race-text");
      const count = lane.counts.slice(0, over ? undefined : steps).reduce((a, b) => a + b, 0);
      text.textContent = texts[lane.text].slice(0, count).join("");
      text.scrollTop = text.scrollHeight;
    });
  }

  function pause() {
    cancelAnimationFrame(frame);
    frame = 0;
    start.textContent = "Play";
  }

  /** Let the clock run from where it stands, or again from the start, unless the picture is left. */
  function run() {
    const lasts = 1000 * Math.max(SHORTEST, longest),
      from = Number(time.value) < 1 ? Number(time.value) : 0,
      begun = performance.now() - from * lasts;
    const tick = () => {
      if (!element.isConnected) return;
      time.value = String(Math.min(1, (performance.now() - begun) / lasts));
      move();
      if (Number(time.value) < 1) frame = requestAnimationFrame(tick);
      else pause();
    };
    start.textContent = "Pause";
    tick();
  }

  start.addEventListener("click", () => (frame ? pause() : run()));
  time.addEventListener("input", () => {
    pause();
    move();
  });
  if (lanes.some((lane) => lane.counts)) {
    const clock = make("div", "ouro-stepper");
    clock.append(start, time);
    controls.append(clock);
  }
  element.append(controls, about, box, said, note);
  if (axes.length) choose(-1);
  else paint();
}
