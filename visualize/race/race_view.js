// @ts-check
// A race: lanes that run one after the other and grow while they run, then a replay of all on one
// clock.
import { bring, counted, fill, make, quote } from "../kit/dom.js";
import { Player } from "../kit/player.js";
import { Lane, ordinal, passes } from "./race_lane.js";
import { drawKeys, drawMark } from "../run/token_summary.js";
/** @import { Mount } from "../kit/types" */

const HEAD = [
  "lane",
  "tokens",
  "forward passes",
  "tokens per pass",
  "seconds",
  "tokens/s",
  "speedup",
  "text",
];
const PASS_SECONDS = 0.12; // how long a forward pass takes when the clock counts passes

/**
 * Before a race has run here, the view asks the server for a recorded race.
 * @type {Mount}
 */
export function mount(element, props, watch, trigger, server) {
  const root = element.querySelector(".ouro-run");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const state = {
    /** @type {string | null} */
    race: null,
    /** @type {Lane[]} */
    lanes: [],
    clock: "passes",
  };
  const run = () => state.lanes.filter((lane) => lane.row);
  const over = () => ["true", "recorded"].includes(root.dataset.done);

  /** @extends Player */
  class RacePlayer extends Player {
    moved() {
      const [, time] = this.frames[this.at];
      const end = this.at === this.frames.length - 1;
      for (const lane of run()) lane.show(time, end, state.clock, run());
    }

    begin() {
      this.set(0);
    }

    words() {
      const time = this.at < 0 ? 0 : this.frames[this.at][1];
      return state.clock === "passes" ? passes(time) : time.toFixed(2) + " s";
    }

    /** Return the number of passes, whatever the clock: seconds are shorter. */
    longest() {
      return passes(Math.max(0, ...run().map((lane) => lane.steps.length)));
    }

    lanes() {
      const times = new Set([0]);
      for (const lane of run()) lane.ends(state.clock).forEach((end) => times.add(end));
      const scale = state.clock === "passes" ? PASS_SECONDS : 1;
      this.frames = [...times]
        .sort((a, b) => a - b)
        .map((time, index) => [index, time, time * scale]);
      this.at = this.frames.length - 1;
      const whole = Math.max(...run().map((lane) => lane.ends(state.clock).at(-1) || 0));
      for (const lane of state.lanes) lane.scale(state.clock, whole);
      this.update();
    }
  }

  const player = new RacePlayer(part("timeline"));
  const clock = make("select", "ouro-grain ouro-clock");
  clock.setAttribute("aria-label", "Clock");
  const modelled = new Map(props.clocks);
  clock.append(
    new Option("in forward passes", "passes"),
    new Option("in seconds, measured", "seconds"),
  );
  for (const [id, name] of modelled) clock.append(new Option(name, id));
  clock.addEventListener("change", () => {
    state.clock = clock.value;
    player.pause();
    for (const lane of state.lanes) lane.label(state.clock);
    if (!over() || !run().length) return;
    player.lanes();
    finish();
  });
  part("timeline").append(clock);

  function finish() {
    player.set(player.frames.length - 1);
    if (!over()) return;
    /** @param {Lane} lane */
    const rank = (lane) => lane.rank(state.clock, run());
    const order = run().sort((a, b) => rank(a) - rank(b));
    const places = order.map((lane) => `${ordinal(rank(lane))} ${lane.name}`);
    part("order").textContent = `Finish ${finishing()}: ${places.join(", ")}.`;
    part("verdict").textContent = verdict(order[0]);
  }

  /** Return the measure of the ranking. */
  function finishing() {
    if (modelled.has(state.clock)) return "by modelled seconds";
    return state.clock === "passes" ? "by forward passes" : "by seconds";
  }

  /**
   * Return the result in a sentence: the first lane against plain decoding, which runs first.
   * @param {Lane | undefined} best
   */
  function verdict(best) {
    const plain = state.lanes[0];
    if (!best || !plain.row) return "";
    if (modelled.has(state.clock)) return modelledVerdict(best, plain);
    if (best === plain) return "No lane needs less than plain decoding here.";
    const [, count, , , , speedup, text] = best.row;
    const needs = `${best.name} needs ${passes(Number(count))}`;
    /** @type {Record<string, string>} */
    const ties = { yes: "", "up to a tie": ", up to a rounding tie" };
    const same = ties[text];
    // A speed from a busy machine is no result.
    const [, factor, spread] = speedup.match(/^(.*×)(?:, (.*))?$/) || [];
    const fast =
      factor && !best.busy ? `, at ${factor} the speed${spread ? ` ${spread}` : ""}` : "";
    const told = same === undefined ? "" : ` Its text is the same as plain decoding's${same}.`;
    const drafted = best.steps.reduce((sum, step) => sum + step.passes, 0);
    const beside = drafted ? `, plus ${counted(drafted, "draft pass", "draft passes")}` : "";
    return `${needs} instead of ${plain.row[1]}${beside}${fast}.${told}`;
  }

  /**
   * Return the same on another machine; none of it was measured.
   * @param {Lane} best
   * @param {Lane} plain
   */
  function modelledVerdict(best, plain) {
    const where = `${modelled.get(state.clock).replace(/^m/, "M")}: `;
    const [mine, theirs] = [best, plain].map((lane) => lane.ends(state.clock).at(-1));
    if (best === plain) return `${where}no lane would be faster than plain decoding.`;
    const took =
      `${best.name} would take ${mine.toFixed(2)} s, plain decoding ` + `${theirs.toFixed(2)} s`;
    return `${where}${took}. Acceptance is taken as it was here.`;
  }

  /**
   * Return a cell of the table. A remark on a number is below it, so that it does not widen the
   * table.
   * @param {string} value
   */
  function cell(value) {
    const [, number, remark] = value.match(/^(.*×), (.*)$/) || [];
    const node = make("td", "", number || value);
    if (remark) node.append(make("small", "ouro-race-remark", remark));
    return node;
  }

  /**
   * @param {{ name: string, row: string[] }[]} lanes
   * @param {string} caption
   */
  function table(lanes, caption = "Measured on this machine") {
    const body = part("table");
    body.replaceChildren();
    const head = make("tr");
    for (const name of HEAD) head.append(make("th", "", name));
    body.append(make("caption", "", caption), head);
    for (const lane of lanes) {
      const row = make("tr");
      const cells = lane.row.map(cell);
      cells.forEach((one, n) => (one.dataset.label = HEAD[n + 1]));
      row.append(make("th", "", lane.name), ...cells);
      body.append(row);
    }
  }

  /** @param {any} value */
  function begin(value) {
    if (!value.done) bring(root);
    Object.assign(state, { race: value.race, lanes: [] });
    for (const name of ["lanes", "legend", "table"]) part(name).replaceChildren();
    for (const name of ["order", "verdict"]) part(name).textContent = "";
    player.pause();
    Object.assign(player, { frames: [], at: -1 });
    player.update();
  }

  /**
   * Add the lanes before any of them runs: a lane that has not begun says so.
   * @param {any} value
   */
  function lineUp(value) {
    for (const name of (value.names || []).slice(state.lanes.length)) {
      const lane = new Lane(name, state.lanes.length, value.length);
      lane.label(state.clock);
      state.lanes.push(lane);
      part("lanes").append(lane.box);
    }
  }

  /** @param {any} value */
  function grow(value) {
    if (value.lane !== undefined && state.lanes[value.lane]) {
      state.lanes[value.lane].grow(value.steps, value.from);
      state.lanes[value.lane].label(state.clock);
    }
    (value.lanes || []).forEach((/** @type {any} */ data, /** @type {number} */ index) => {
      const lane = state.lanes[index];
      if (!lane) return;
      lane.finish(data);
      lane.label(state.clock);
    });
    const counts = state.lanes.flatMap((lane) => [...lane.text.counts]);
    const written = counts.filter(([, count]) => count).map(([look]) => look);
    drawKeys(part("legend"), looks, new Set(written));
    if (state.lanes.some((lane) => lane.text.marked)) drawMark(part("legend"));
  }

  /** @param {string | null} json */
  function paint(json) {
    if (!json) return;
    const value = JSON.parse(json);
    if (value.stopped) {
      if (!state.race || over()) return;
      const all = state.lanes.every((lane) => lane.row);
      value.status = all
        ? "Stopped. What was measured stays."
        : "Stopped. The lanes that ended stay.";
      for (const lane of state.lanes) lane.stop();
    }
    if (value.race && value.race !== state.race) begin(value);
    lineUp(value);
    grow(value);
    if (value.badge !== undefined) part("badge").textContent = value.badge;
    if (value.title !== undefined) part("title").textContent = value.title;
    if (value.prompt !== undefined) part("title").replaceChildren("Prompt: ", quote(value.prompt));
    if (value.lanes && value.lanes.length) table(value.lanes, value.caption);
    if (value.status !== undefined) fill(part("status"), value.status);
    const told = value.lanes || value.stopped;
    if (value.status !== undefined && told) part("said").textContent = value.status;
    root.dataset.done = value.recorded ? "recorded" : String(Boolean(value.done || value.stopped));
    if (!over() || !run().length) return;
    player.lanes();
    finish();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (value.done && value.play && !still) player.play();
  }

  const palette = document.body.dataset.ouroPalette;
  if (palette) root.dataset.ouroPalette = palette;
  player.update();
  paint(props.value);
  if (!state.race) server.recorded({}).then((json) => state.race || paint(json));
  watch("value", () => paint(props.value));
}
