// @ts-check
// Watch without a server: the views of Watch, and a worker that computes the runs in this browser.
import { inputs } from "../kit/asked.js";
import { tell } from "../kit/dom.js";
import { mount as mountAsk } from "../kit/ask_view.js";
import { mount as mountFault } from "../kit/fault_view.js";
import { mount as mountPlot } from "../kit/plot_view.js";
import { mount as mountSettings } from "../kit/settings_view.js";
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
 * @param {any} facts  those of `static_site.py`
 * @param {(name: string) => Promise<any>} load  returns a recorded run
 * @param {Promise<void>} kept  resolves when files that are fetched are also kept
 */
export function mountLive(facts, load, kept) {
  const root = document.querySelector(".ouro-live");
  const part = (/** @type {string} */ name) => root.querySelector(".ouro-live-" + name);
  const field = root.querySelector("#prompt textarea");
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
  /** @type {Worker | null} */
  let worker = null;
  let ready = false;
  let seq = 0;
  let shown = /** @type {any} */ ({}); // the last view of a run that is under way

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

  /**
   * Play the recorded run of a prompt and a method.
   * @param {{ prompt: string, method: string }} chosen
   */
  async function play({ prompt, method }) {
    const name = facts.recorded[prompt][method];
    const view = await load(name);
    run.show({ ...view, run: "recorded " + name, plays: name, seq: ++seq });
  }

  /**
   * Run the inputs again, as a notice of the run offers it.
   * @param {{ act: string }} chosen
   */
  function again({ act }) {
    const { method } = inputs.state;
    const fixed = inputs.methods.get(method).presets.find((/** @type {any} */ p) => p.id === act);
    const of = fixed ? { [method]: { values: fixed.values } } : {};
    settings.show({ merge: true, method, of, run: act === "chat" ? { chat: true } : {} });
    compute();
  }

  /** @param {string} words */
  const state = (words) => (part("state").textContent = words);

  /** @param {string} words */
  function unable(words) {
    state(`${words} The recorded runs play all the same.`);
    part("progress").hidden = part("load").hidden = true;
    root.querySelector("#generate").disabled = true;
    worker = null;
    tell("ouro:ended");
  }

  /** Begin to load the model, if that was not done. */
  async function begin() {
    part("load").hidden = true;
    await kept;
    if (worker) return;
    worker = new Worker(`live/worker.js?v=${facts.version}`, { type: "module" });
    worker.addEventListener("message", ({ data }) => take(data));
    worker.addEventListener("error", () => unable("The worker of this page does not start."));
  }

  /** @param {any} message  of worker.js */
  function take(message) {
    const { progress, update } = message;
    if (progress) {
      const { loaded, total, measuring } = progress;
      part("progress").hidden = false;
      part("progress").value = loaded / total;
      const size = (/** @type {number} */ bytes) => Math.round(bytes / MEGABYTE);
      state(
        measuring
          ? "The model is here. Its passes are timed …"
          : `Loading the model into this browser: ${size(loaded)} of ${size(total)} MB. ` +
              "Recorded runs play until then.",
      );
    }
    if (message.ready) {
      ready = true;
      part("progress").hidden = true;
      state("The model runs in this browser; nothing that you type leaves it.");
    }
    if (message.missing) unable(`The model cannot run here: ${message.missing}.`);
    if (update) paint(JSON.parse(update));
    if (message.ended) end(message.stopped);
  }

  /** @param {any} update  of session.py */
  function paint({ view, charts: drawn, has, error }) {
    if (error) {
      fault.show({ seq: ++seq, words: error });
      return;
    }
    if (!view) return;
    shown = { ...shown, ...view };
    run.show(view);
    for (const [id, figure] of Object.entries(drawn))
      charts[id]?.show({ seq: ++seq, run: view.run, figure });
    if (has) details.show({ has });
    if (view.timing) tell("ouro:ended");
  }

  /** @param {boolean} stopped */
  function end(stopped) {
    if (stopped && shown.run && !shown.done) {
      const status = `Stopped. ${shown.status}. There is no plain run to compare with.`;
      run.show({ run: shown.run, seq: ++seq, from: Infinity, status, done: true });
    }
    shown = {};
    tell("ouro:ended");
  }

  /** Have the inputs computed. */
  async function compute() {
    await begin();
    if (!ready) run.show({ run: "waits", waiting: "The run begins when the model is loaded." });
    const { method, of, run: values } = inputs.state;
    const defaults = Object.fromEntries(inputs.run.map(({ name, value }) => [name, value]));
    const { values: chosen = {}, predicted = "" } = of[method] || {};
    const asked = { prompt: field.value, method, predicted, settings: chosen };
    worker?.postMessage({ ask: { ...asked, run: { ...defaults, ...values } } });
  }

  root.querySelector("#generate").addEventListener("click", compute);
  field.addEventListener("input", () => ask.show([field.value]));
  document.addEventListener("ouro:stop", () => worker?.postMessage({ stop: true }));
  write(facts.first.prompt);
  play(facts.first);
  const lacks = missing();
  if (lacks) return unable(lacks);
  part("load").hidden = false;
  part("load").textContent = `Load the model (${Math.round(facts.bytes / MEGABYTE)} MB)`;
  part("load").addEventListener("click", begin);
  state("A small language model can run in this browser, without a server.");
  // A browser that has the files from an earlier visit begins at once.
  window.caches?.match(`live/files.json?v=${facts.version}`).then((list) => list && begin());
}
