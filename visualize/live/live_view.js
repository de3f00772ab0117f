// @ts-check
// Watch and Compare without a server: their views, and a worker that computes in this browser.
import { inputs } from "../watch/asked.js";
import { tell } from "../kit/dom.js";
import { mount as mountCompare } from "../compare/compare_view.js";
import { mount as mountAsk } from "../watch/ask_view.js";
import { mount as mountFault } from "../kit/fault_view.js";
import { mount as mountPlot } from "../kit/plot_view.js";
import { mount as mountSettings } from "../watch/settings_view.js";
import { mount as mountDetails } from "../run/details_view.js";
import { mount as mountRun } from "../run/token_view.js";
import { mount as mountChips } from "../watch/example_chips.js";
import { mount as mountCards } from "../watch/method_cards.js";
/** @import { Mount } from "../kit/types" */

/** A module with an instruction of 128-bit SIMD: `i32x4.splat`. */
const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 17,
  11,
];
/** Gigabytes that the models and Python need; browsers tell no number above 8. */
const LEAST_MEMORY = 2;
const MEGABYTE = 1e6;
const RECORDED = "You can still play the recorded runs.";
/** The files that take longest: a browser that has them begins without being asked. */
const LARGEST = ["target.bin", "draft.bin", "pyodide/pyodide.asm.wasm"];

/** Return what this browser lacks, as a sentence, or "" if it lacks nothing. */
function missing() {
  const { deviceMemory } = /** @type {{ deviceMemory?: number }} */ (navigator);
  if (location.protocol === "file:")
    return "The model runs only on a page from a web server, and this one was opened from disk.";
  if (!window.WebAssembly || !WebAssembly.validate(new Uint8Array(SIMD)))
    return "The model cannot run here: this browser has no WebAssembly with SIMD.";
  if (deviceMemory && deviceMemory < LEAST_MEMORY)
    return `The model cannot run here: it needs ${LEAST_MEMORY} GB of memory.`;
  return "";
}

/**
 * @param {any} facts  from `static_site.py`
 * @param {(name: string) => Promise<any>} load  returns a recorded run
 * @param {Promise<void>} kept  resolves when files that are fetched are also kept
 */
export function mountLive(facts, load, kept) {
  const root = document.querySelector(".ouro-site");
  const part = (/** @type {string} */ name) => root.querySelector(".ouro-live-" + name);
  const field = root.querySelector("#prompt textarea");
  document.addEventListener("ouro:asked", () => leave("Stopped")); // before any view hears of it
  const details = component("details", mountDetails, { has: [] }, { charts: facts.charts });
  const fault = component("fault-view", mountFault, null);
  const run = component("token-view", mountRun, null, { asks: true }, { run_again: again });
  /** @type {Record<string, ReturnType<typeof component>>} */
  const charts = {};
  for (const { id, axis } of facts.charts)
    charts[id] = component("chart-" + id, mountPlot, null, { axis, later: facts.later });
  const settings = component("run-settings", mountSettings, facts.settings, facts.declared);
  const ask = component("ask-view", mountAsk, [""], { field: "prompt" });
  component("method-cards", mountCards, { lacking: facts.lacking }, facts.methods, {
    choose_method: play,
  });
  const chips = component("example-chips", mountChips, null, facts.examples, {
    choose_example: () => {
      const { prompt, settings: chosen } = JSON.parse(chips.props.value);
      if (chosen) settings.show(chosen);
      write(prompt);
      root.querySelector("#generate").click();
    },
  });
  const { first, opens, file, ...plans } = facts.compare;
  const compare = component("compare-view", mountCompare, first, plans, {
    measure,
    stop_measuring: () => leave("Stopped"),
    open_run: open,
    save_table: () => (measured ? compute({}) : compare.show({ file })),
  });
  let measured = false; // whether Compare shows what this browser has measured
  let comparing = false;
  /** @type {Worker | null} */
  let worker = null;
  let ready = false;
  let seq = 0;
  let current = 0; // the number of the run that is under way, or 0
  let shown = /** @type {any} */ ({}); // its last view
  const folder = `live/${facts.version}/`;

  /**
   * Mount a view of the page in its element.
   * @param {string} id
   * @param {Mount} mount
   * @param {any} value
   * @param {object} [more]
   * @param {Record<string, (detail: any) => void>} [events]
   */
  function component(id, mount, value, more = {}, events = {}) {
    const view = {
      props: { value: value && JSON.stringify(value), looks: facts.looks, ...more },
      changed: () => {},
      /** @param {any} next */
      show(next) {
        view.props.value = JSON.stringify(next);
        view.changed();
      },
    };
    mount(
      document.getElementById(id),
      view.props,
      (_, changed) => (view.changed = changed),
      (event, detail) => events[event]?.(detail),
      undefined,
      (json) => (view.props.value = json),
    );
    return view;
  }

  /** @param {string} prompt */
  function write(prompt) {
    field.value = prompt;
    ask.show([prompt]);
  }

  /** @param {{ prompt: string, method: string }} chosen  whose recorded run is played */
  function play({ prompt, method }) {
    playRun(facts.recorded[prompt][method]);
  }

  /** @param {string} name  of a recorded run */
  async function playRun(name) {
    const view = await load(name).catch(() => "");
    if (!view) return fault.show({ seq: ++seq, words: "The recorded run cannot be loaded." });
    if (shown.timing) leave("Stopped");
    run.show({ ...view, run: "recorded " + name, plays: name, seq: ++seq });
  }

  /** @param {{ act: string }} chosen  how a notice of the run offers to run it again */
  function again({ act }) {
    const { method } = inputs.state;
    const fixed = inputs.methods.get(method).presets.find((/** @type {any} */ p) => p.id === act);
    const of = fixed ? { [method]: { values: fixed.values } } : {};
    settings.show({ merge: true, method, of, run: act === "chat" ? { chat: true } : {} });
    generate();
  }

  /** Show the place that the address names. */
  function go() {
    const place = location.hash === "#compare" ? "compare" : "watch";
    for (const panel of root.querySelectorAll("[data-place]"))
      panel.hidden = panel.dataset.place !== place;
    const panel = place === "watch" ? ".ouro-inputs" : "#compare-view";
    root.querySelector(panel).prepend(part("state").parentElement);
    for (const link of root.querySelectorAll(".ouro-site-nav a"))
      link.toggleAttribute("aria-current", link.hash === "#" + place);
    scrollTo(0, 0);
    dispatchEvent(new Event("resize")); // charts that were hidden have no width
  }

  /** @param {{ plan: object }} chosen  what Compare measures */
  function measure({ plan }) {
    leave("Stopped");
    measured = comparing = true;
    const status = ready ? "" : "The comparison begins when the model is loaded.";
    compare.show({ seq: ++seq, status, done: false });
    compute({ plan });
  }

  /** @param {{ lane: number, prompt: number }} row  of Compare, whose run Watch shows */
  function open(row) {
    location.hash = "#watch";
    if (measured) compute(row);
    else playRun(opens[row.lane]);
  }

  /** @param {string} words */
  const state = (words) => (part("state").textContent = words);
  const size = (/** @type {number} */ bytes) => Math.round(bytes / MEGABYTE);

  /** @type {(label: string, words: string) => void} */
  const offer = (label, words) => {
    part("load").textContent = label;
    part("load").hidden = !(part("progress").hidden = true);
    state(words);
  };

  /** @param {string} reason */
  function failed(reason) {
    worker.terminate();
    worker = null;
    ready = false;
    leave("The run failed");
    offer("Try again", `The model cannot be loaded: ${reason}. ${RECORDED}`);
  }

  /** Begin to load the model, if that was not done. */
  async function begin() {
    if (worker) return;
    part("load").hidden = true;
    take({ loaded: 0 });
    await kept;
    if (worker) return;
    worker = new Worker(folder + "worker.js", { type: "module" });
    worker.addEventListener("message", ({ data }) => take(data));
    worker.addEventListener("error", () => failed("its worker does not start"));
  }

  /** @param {any} message  of worker.js */
  function take({ loaded, measuring, started, failure, number, update, ended }) {
    if (loaded !== undefined) {
      part("progress").hidden = false;
      part("progress").value = loaded / facts.bytes;
      const amount = `${size(loaded)} of ${size(facts.bytes)} MB`;
      state(`Loading the model into this browser: ${amount}. Recorded runs play until then.`);
    }
    if (measuring) state("The model is loaded. Measuring its speed …");
    if (started) {
      ready = true;
      part("progress").hidden = true;
      state("The model runs in this browser; nothing that you type leaves it.");
    }
    if (failure) failed(failure);
    if (!number || number !== current) return; // of a run that was left
    if (update) paint(JSON.parse(update));
    if (ended) leave("Stopped");
  }

  /** @param {any} update  of session.py */
  function paint({ view, charts: drawn, has, error, compare: rows }) {
    if (error) {
      if (comparing) compare.show({ seq: ++seq, status: error, done: true });
      else fault.show({ seq: ++seq, words: error });
      return leave("The run failed");
    }
    if (rows) compare.show(rows);
    if (!view) return;
    shown = { ...shown, timing: false, ...view, begun: shown.begun || view.steps.length > 0 };
    run.show(view);
    for (const [id, figure] of Object.entries(drawn))
      charts[id]?.show({ seq: ++seq, run: view.run, figure });
    if (has) details.show({ has });
    if (view.timing) tell("ouro:ended");
  }

  /** @param {string} ending  why the run that is under way has no more, if it is not complete */
  function leave(ending) {
    if (shown.run && (shown.timing || !shown.done)) {
      const place = `. ${shown.status.split(". ")[0]}. There is no plain run to compare with.`;
      const status = ending + (shown.begun ? place : " before the first token.");
      run.show({ run: shown.run, seq: ++seq, from: 0, steps: [], status, done: true });
    }
    compare.show({ seq: ++seq, stopped: true });
    comparing = false;
    worker?.postMessage({ stop: true });
    current = 0;
    shown = {};
    tell("ouro:ended");
  }

  /** @param {object} ask  what session.py computes */
  async function compute(ask) {
    const number = (current = ++seq);
    await begin();
    if (number === current) worker.postMessage({ number, ask }); // not stopped meanwhile
  }

  /** Have the inputs of Watch computed. */
  function generate() {
    if (!ready) run.show({ run: "waits", waiting: "The run begins when the model is loaded." });
    const { method, of, run: values } = inputs.state;
    const defaults = Object.fromEntries(inputs.run.map(({ name, value }) => [name, value]));
    const { values: settings = {}, predicted = "" } = of[method] || {};
    const ask = { prompt: field.value, method, predicted, settings };
    compute({ ...ask, run: { ...defaults, ...values } });
  }

  addEventListener("hashchange", go);
  go();
  root.querySelector("#generate").addEventListener("click", generate);
  field.addEventListener("input", () => ask.show([field.value]));
  document.addEventListener("ouro:stop", () => leave("Stopped"));
  write(facts.first.prompt);
  play(facts.first);
  const lacks = missing();
  root.querySelector("#generate").disabled = Boolean(lacks);
  if (lacks) return state(`${lacks} ${RECORDED}`);
  part("load").addEventListener("click", begin);
  offer(
    `Load the model (${size(facts.bytes)} MB)`,
    "A small language model can run in this browser, without a server.",
  );
  const files = LARGEST.map((name) => window.caches?.match(folder + name));
  Promise.all(files).then((all) => all.every(Boolean) && begin());
}
