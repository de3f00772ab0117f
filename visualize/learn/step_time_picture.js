// @ts-check
// The time of one step to scale: its draft passes and its target pass, above the plain passes that
// write the same number of tokens.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/**
 * The sliders that a stop may offer: label, least, most, step.
 * @type {Record<string, [string, number, number, number]>}
 */
const SLIDERS = {
  alpha: ["α: chance that a guess is accepted", 0, 0.95, 0.05],
  gamma: ["γ: guesses per step", 0, 12, 1],
  cost: ["c: cost of a draft pass, in target passes", 0, 1, 0.01],
  row: ["r: cost of one more row, in target passes", 0, 0.3, 0.005],
  batch: ["answers that are written at once", 1, 256, 1],
};

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * `free`: rows of a pass that cost nothing, if a pass is priced by them and not by r.
   * @type {{ values: Record<string, number>, sliders: string[], free?: number, note: string }}
   */
  const { values, sliders, free, note } = JSON.parse(value);
  const controls = make("div", "ouro-theory-sliders ouro-ranges"),
    lines = make("div", "ouro-time-lines"),
    said = make("p", "ouro-picture-said");
  said.setAttribute("role", "status");
  said.dataset.part = "result";

  /**
   * Return the cost of a target pass over some rows for each answer, in passes over one row for one
   * answer.
   * @param {number} rows
   */
  const pass = (rows) =>
    free ? Math.max(1, (values.batch * rows) / free) : 1 + values.row * (rows - 1);

  for (const name of sliders) {
    const [text, min, max, step] = SLIDERS[name],
      label = make("label", "ouro-range"),
      input = make("input"),
      shown = make("output");
    Object.assign(input, { type: "range", min, max, step, name, value: values[name] });
    label.dataset.part = name;
    const tell = () => (shown.textContent = String(values[name]));
    input.addEventListener("input", () => {
      values[name] = Number(input.value);
      tell();
      paint();
    });
    tell();
    label.append(make("span", "", text), input, shown);
    controls.append(label);
  }

  /**
   * @param {string} name
   * @param {[number, string][]} boxes  widths in plain passes, with their looks
   * @param {number} scale  plain passes of the whole width
   */
  function line(name, boxes, scale) {
    const row = make("div", "ouro-time-line ouro-size-m"),
      track = make("div", "ouro-time-track");
    for (const [width, look] of boxes) {
      const box = make("i");
      box.style.width = (100 * width) / scale + "%";
      box.dataset.part = look;
      track.append(box);
    }
    row.append(make("span", "", name), track);
    return row;
  }

  function paint() {
    const { alpha, gamma, cost } = values,
      plain = pass(1);
    const tokens = Array.from({ length: gamma + 1 }, (_, n) => alpha ** n).reduce((a, b) => a + b);
    const target = pass(gamma + 1),
      step = gamma * cost * plain + target,
      alone = tokens * plain;
    const scale = Math.max(step, alone) * 1.02;
    /** @type {[number, string][]} */
    const drafts = Array.from({ length: gamma }, () => [cost * plain, "draft"]);
    /** @type {[number, string][]} */
    const passes = Array.from({ length: Math.floor(tokens) }, () => [plain, "plain"]);
    const rest = tokens - Math.floor(tokens);
    if (rest > 0.001) passes.push([rest * plain, "part"]);
    lines.replaceChildren(
      line("one step", [...drafts, [target, "target"]], scale),
      line("plain decoding", passes, scale),
    );
    const speedup = alone / step;
    said.textContent =
      `A step yields ${tokens.toFixed(2)} tokens and takes ${(step / plain).toFixed(2)} plain ` +
      `passes: ${speedup.toFixed(2)}× as fast as plain decoding.` +
      (free
        ? ` The pass has ${values.batch * (gamma + 1)} rows; ${free} are free.`
        : ` Drafting takes ${(((gamma * cost) / (step / plain)) * 100).toFixed(0)}% of the step.`);
  }

  element.append(controls, lines, said, make("figcaption", "", note));
  paint();
}
