// Several runs replayed on one clock.
import { bring, counted, make } from "./dom.js";
import { Player } from "./player.js";
import { TokenText } from "./token_text.js";

export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-run");
  const part = (name) => root.querySelector(".ouro-" + name);
  const state = { race: null, lanes: [], clock: "seconds" };
  const HEAD = ["lane", "tokens", "target passes", "per pass", "seconds", "tokens/s", "speedup", "text"];
  const PASS_SECONDS = 0.12; // how long a target pass takes when the clock counts passes

  const passes = (n) => counted(n, "target pass", "target passes");

  class RacePlayer extends Player {
    moved() {
      const [, time] = this.frames[this.at];
      for (const lane of state.lanes) lane.show(time, this.at === this.frames.length - 1);
    }

    begin() {
      this.set(0);
    }

    words() {
      const time = this.at < 0 ? 0 : this.frames[this.at][1];
      return state.clock === "passes" ? passes(time) : time.toFixed(2) + " s";
    }

    lanes() {
      const times = new Set([0]);
      for (const lane of state.lanes) lane.ends().forEach((end) => times.add(end));
      const scale = state.clock === "passes" ? PASS_SECONDS : 1;
      this.frames = [...times].sort((a, b) => a - b).map((time, index) => [index, time, time * scale]);
      this.at = this.frames.length - 1;
      this.update();
    }
  }

  class Lane {
    constructor(data) {
      this.data = data;
      this.box = make("section", "ouro-lane");
      this.box.setAttribute("aria-label", data.name);
      const head = make("header", "ouro-lane-head");
      this.rankLabel = make("b");
      this.count = make("span", "ouro-lane-count");
      head.append(make("span", "ouro-lane-name", data.name), this.rankLabel, this.count);
      this.bar = make("div", "ouro-lane-bar");
      this.fill = make("i");
      this.fill.dataset.look = "draft";
      this.bar.append(this.fill);
      const text = make("div", "ouro-text ouro-lane-text");
      text.tabIndex = 0;
      text.setAttribute("role", "group");
      text.setAttribute("aria-label", "Text of " + data.name);
      this.box.append(head, this.bar, text);
      this.text = new TokenText(text);
      this.text.append(data.steps);
      this.seconds = [];
      this.tokens = [];
      let seconds = 0, tokens = 0;
      for (const step of data.steps) {
        seconds += step.seconds.reduce((sum, value) => sum + value, 0);
        tokens += step.tokens.length;
        this.seconds.push(seconds);
        this.tokens.push(tokens);
      }
    }

    ends() {
      return state.clock === "passes" ? this.seconds.map((_, index) => index + 1) : this.seconds;
    }

    show(time, over) {
      const done = over ? this.seconds.length : this.ends().filter((end) => end <= time).length;
      if (done === this.seconds.length) this.text.showAll();
      else this.text.show(done - 1, Infinity);
      const tokens = done ? this.tokens[done - 1] : 0, all = this.tokens[this.tokens.length - 1] || 0;
      this.fill.style.width = (all ? (100 * tokens) / all : 0) + "%";
      this.count.textContent = `${tokens} of ${counted(all, "token")} · ${passes(done)}`;
      this.rankLabel.textContent = done === this.seconds.length ? ordinal(this.rank()) : "";
      const span = this.text.spans[done - 1], box = this.text.container;
      if (span && box.scrollHeight > box.clientHeight) box.scrollTop = Math.max(0, span.offsetTop - box.offsetTop - box.clientHeight + 60);
    }

    rank() {
      const mine = this.ends().at(-1);
      return 1 + state.lanes.filter((lane) => lane.ends().at(-1) < mine - 1e-9).length;
    }
  }

  const ordinal = (n) => ["1st", "2nd", "3rd", "4th"][n - 1];
  const player = new RacePlayer(part("timeline"));
  const clock = make("select", "ouro-grain");
  clock.setAttribute("aria-label", "Clock");
  clock.append(new Option("in seconds", "seconds"), new Option("in target passes", "passes"));
  clock.addEventListener("change", () => {
    state.clock = clock.value;
    player.pause();
    player.lanes();
    finish();
  });
  part("timeline").append(clock);

  function finish() {
    if (!state.lanes.length) return;
    player.set(player.frames.length - 1);
    if (root.dataset.done !== "true") return;
    const order = [...state.lanes].sort((a, b) => a.rank() - b.rank()).map((lane) => ordinal(lane.rank()) + " " + lane.data.name);
    part("order").textContent = `Finish: ${order.join(", ")}.`;
  }

  function table(lanes) {
    const body = part("table");
    body.replaceChildren();
    const head = make("tr");
    for (const name of HEAD) head.append(make("th", "", name));
    body.append(head);
    for (const lane of lanes) {
      const row = make("tr");
      row.append(make("th", "", lane.name), ...lane.row.map((value) => make("td", "", value)));
      body.append(row);
    }
  }

  function paint(json) {
    if (!json) return;
    const value = JSON.parse(json);
    if (value.stopped) {
      if (!state.race || root.dataset.done === "true") return;
      value.status = "Stopped. The lanes that ended stay.";
    }
    if (value.race && value.race !== state.race) {
      if (!value.done) bring(root);
      Object.assign(state, { race: value.race, lanes: [] });
      part("lanes").replaceChildren();
      part("table").replaceChildren();
      part("order").textContent = "";
      player.pause();
      Object.assign(player, { frames: [], at: -1 });
      player.update();
    }
    for (const lane of (value.lanes || []).slice(state.lanes.length)) {
      state.lanes.push(new Lane(lane));
      part("lanes").append(state.lanes.at(-1).box);
    }
    if (value.badge !== undefined) part("badge").textContent = value.badge;
    if (value.title !== undefined) part("title").textContent = value.title;
    if (value.lanes) table(value.lanes);
    if (value.status !== undefined) part("status").textContent = value.status;
    if (value.status !== undefined && (value.lanes || value.stopped)) part("said").textContent = value.status;
    root.dataset.done = String(Boolean(value.done || value.stopped));
    if (value.lanes && value.lanes.length) {
      player.lanes();
      finish();
      if (value.done && value.play && !matchMedia("(prefers-reduced-motion: reduce)").matches) player.play();
    }
  }

  if (document.body.dataset.ouroPalette) root.dataset.ouroPalette = document.body.dataset.ouroPalette;
  player.update();
  paint(props.value);
  watch("value", () => paint(props.value));
}
