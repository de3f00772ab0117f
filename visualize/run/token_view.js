// @ts-check
// The view of a run: it draws what the server sends, and handles its buttons. Triggers `select`,
// `step` and `run_again`.
import { bring, counted, fill, listening, tell } from "../kit/dom.js";
import { embed } from "./embedding.js";
import { rememberRun } from "../kit/own_runs.js";
import { Terms } from "./terms.js";
import { TokenStage } from "./token_stage.js";
import { TokenStatus } from "./token_status.js";
import { drawCaption, drawMeaning, drawNotices, drawNumbers, drawTiles } from "./token_summary.js";
/** @import { Facts, Mount } from "../kit/types" */

const LIVE = "live"; // the badge of a run that is made here, as in view.py
const still = matchMedia("(prefers-reduced-motion: reduce)");
/**
 * How long a step is shown before the server hears of it, which leaves out the steps that a player
 * runs through.
 */
const REST_MS = 150;

/**
 * Return what the server hears of a token.
 * @param {HTMLElement} token
 * @param {Facts} facts
 */
const told = ({ dataset }, { text }) => ({
  index: Number(dataset.index),
  step: Number(dataset.step),
  source: dataset.source,
  kind: dataset.kind || null,
  text,
});

/** @type {Mount} */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-run");
  const part = (/** @type {string} */ name) => root.querySelector(".ouro-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const status = new TokenStatus(root);
  const listen = listening(root);
  const terms = new Terms(root, listen);
  const stage = new TokenStage(root, looks, props.plotly, status, terms, listen, (node, facts) =>
    trigger("select", told(node, facts)),
  );
  if (props.asks) stage.card.lesson = "#learn/guess";
  let left = /** @type {string | null} */ (null); // the run that was stopped
  let asking = false; // a run of this visitor is under way
  let before = /** @type {string | null} */ (null); // the run that was shown when it was asked for
  let played = /** @type {string | null} */ (null); // the recorded run that has played
  let kept = /** @type {any} */ ({}); // the run so far, for a page that is left
  if (props.styles) embed(element, props.styles);

  /** @param {string | null} json */
  function paint(json) {
    if (!json) return;
    const value = JSON.parse(json);
    // a part of a run that was stopped meanwhile
    if (!value.run || (value.run === left && !value.done)) return;
    if (value.waiting) return status.announce(value.waiting, false); // the run before stays
    if (value.plays && asking) return; // it was chosen before the run was asked for
    if (asking && value.run === before && value.timing !== undefined) return; // its late timing
    if (status.old) status.renew();
    if (value.run !== stage.run) start(value);
    else if (value.again === "other steps") stage.replace(() => start(value), value.steps);
    else if (value.again === "same steps" && value.steps.length === stage.text.steps.length)
      stage.retime(value.steps);
    const known = stage.text.steps.length - value.from;
    kept = { ...(value.prompt === undefined ? kept : {}), ...value };
    if (known >= 0) {
      const fresh = value.steps.slice(known);
      if (fresh.length) {
        stage.text.append(fresh); // TokenText in token_text.js: a span for each token
        // timeline, tree and legend follow; new tokens stay hidden where an earlier moment is shown
        stage.grown(fresh);
      }
    } // else steps are missing here, and a later view from 0 brings them
    status.show(value);
    if (value.conditions) drawCaption(root, value, terms);
    if (value.tiles) drawTiles(part("tiles"), value.tiles);
    if (value.notices) drawNotices(part("notices"), part("beside"), value.notices, again);
    if (value.sentence !== undefined) terms.introduce(fill(part("sentence"), value.sentence));
    if (value.numbers) {
      drawNumbers(part("numbers"), value.numbers);
      part("why-fast").hidden = !value.numbers.length;
    }
    if (value.charts) stage.charts.show(value.run, value.charts, stage.text.steps);
    if (value.rival) stage.rival.begin(value.rival);
    if (value.steps && value.done) {
      stage.finish(value.steps, value.ended); // the last token's text may be completed only now
      if (value.parts) stage.text.markParting(value.parts);
      if (value.theory && value.badge === LIVE)
        rememberRun({ run: value.run, name: value.title, ...value.theory });
    }
    root.dataset.done = String(Boolean(value.done));
    root.dataset.unsaved = String(Boolean(value.unsaved));
    root.toggleAttribute("data-timing", Boolean(value.timing));
    root.toggleAttribute("data-toured", Boolean(value.tour) && !still.matches);
    if (!stage.hands.stop) stage.hands.rove(part("text").querySelector(".ouro-token"));
    if (value.status !== undefined) status.announce(value.status, value.done);
    if (value.step) tell("ouro:seek", { run: value.run, step: value.step });
    else if (value.plays && value.plays !== played) lead(value);
    else if (value.rests) stage.rest();
    else stage.tick(stage.timeline.seconds);
  }

  /**
   * Play a recorded run, and rest at its best step.
   * @param {any} value
   */
  function lead({ plays, tour }) {
    // the run plays already before the page is built, see opening.py
    const begun = played === null && document.getElementById("ouro-opening")?.dataset.begun;
    played = plays;
    stage.whole = true;
    stage.fit();
    if (still.matches || !tour) stage.rest(true, tour);
    else stage.lead(tour, begun ? (performance.now() - Number(begun)) / 1000 : 0);
  }

  /** @param {any} value */
  function start(value) {
    if (stage.run !== null && !value.done) bring(root);
    for (const name of ["numbers", "notices", "beside", "title", "sentence"])
      part(name).replaceChildren();
    status.spoken = 0;
    const apart = Boolean(value.prompt && value.chat);
    root.dataset.asked = value.asked ? JSON.stringify(value.asked) : "";
    root.dataset.recorded = String(Boolean(value.plays));
    root.toggleAttribute("data-live", value.badge === LIVE);
    root.dataset.taken = value.taken || "";
    if (props.asks) tell("ouro:shown");
    stage.start(value.run, apart ? value.prompt + "\n\n" : value.prompt, apart);
    if (props.asks && !value.done) tell("ouro:begun", { run: value.run });
  }

  /** @param {string} act */
  function again(act) {
    tell("ouro:asked");
    trigger("run_again", { act });
  }

  if (props.asks) {
    stage.listen(document, "ouro:asked", () => {
      asking = true;
      before = stage.run;
      if (status.old) return;
      left = null;
      status.age();
    });
    stage.listen(document, "ouro:stop", () => (left = stage.run));
    stage.listen(document, "ouro:ended", () => {
      asking = false;
      if (status.old) status.restore();
    });
  }

  if (props.keep)
    stage.listen(document, "ouro:leave", ({ detail }) => {
      const { steps, tokens } = stage.text,
        over = root.dataset.done === "true";
      if (String(kept.run).startsWith("recorded") || !steps.length) return;
      const last = over
        ? status.words
        : `Stopped after ${counted(tokens, "token")}, when the page was left. What was written ` +
          `stays; Generate starts anew.`;
      detail.view = {
        ...kept,
        run: "kept",
        from: 0,
        steps,
        done: true,
        status: last,
        badge: "from before the page was left",
        unsaved: true,
      };
    });

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let resting;
  let sent = ""; // the step that the server knows
  stage.listen(document, "ouro:cursor", ({ detail: { run, step, token, seconds } }) => {
    if (run !== stage.run) return;
    clearTimeout(resting);
    resting = setTimeout(() => {
      if (sent === run + step || run !== stage.run) return;
      sent = run + step;
      trigger("step", { step: step - 1, tokens: token, seconds });
    }, REST_MS);
  });

  /**
   * @param {string} name
   * @param {(on: boolean) => void} act
   */
  const press = (name, act) =>
    part(name).addEventListener("click", () => {
      const on = part(name).getAttribute("aria-pressed") !== "true";
      part(name).setAttribute("aria-pressed", String(on));
      act(on);
    });
  press("guesses", (on) => root.classList.toggle("ouro-guessing", on));
  const unfold = () => {
    part("text").querySelector(".ouro-prompt")?.toggleAttribute("data-folded");
    stage.fit();
  };
  part("asked").addEventListener("click", unfold);
  part("asked").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter") unfold();
  });
  press("windowed", (on) => {
    stage.tree.windowed = on;
    stage.picture();
  });
  press("palette", (on) => {
    for (const node of [document.body, ...document.querySelectorAll(".ouro-run")]) {
      if (on) node.dataset.ouroPalette = "paper";
      else delete node.dataset.ouroPalette;
    }
  });
  terms.introduce(part("bars-title"));
  drawMeaning(part("meaning").querySelector("dl"), looks);

  // For lessons, which lead a reader through a run.
  element.ouroboros = {
    moment: (/** @type {number} */ step, /** @type {string} */ when) =>
      stage.timeline.goToMoment(step, when),
    card(/** @type {number} */ step, /** @type {number} */ node) {
      const span = stage.text.spans[step];
      const token =
        span &&
        (span.querySelector(`[data-node="${node}"]`) ||
          span.querySelector(".ouro-token:not([data-node])"));
      if (token) stage.open(token);
    },
    hideCard: () => stage.card.hide(),
    see: (/** @type {number} */ step) => stage.see(step),
    unseen(/** @type {() => void} */ move) {
      stage.blind = true;
      try {
        move();
      } finally {
        stage.blind = false;
      }
    },
    repositionCard: () => stage.card.reposition(),
  };
  paint(props.value);
  watch("value", () => paint(props.value)); // Gradio calls it whenever the server sends a value
}
