// @ts-check
// A slider over recorded runs of one prompt that differ in their draft length. It asks the lessons
// to show a run.
import { make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ runs: { gamma: number, run: string, last: number }[] }} */
  const { runs } = JSON.parse(value);
  const label = make("label", "ouro-range"),
    input = make("input"),
    shown = make("output");
  Object.assign(input, { type: "range", min: 0, max: runs.length - 1, step: 1, value: 0 });
  const tell = () => {
    shown.textContent = String(runs[Number(input.value)].gamma);
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    tell();
    const { run, last } = runs[Number(input.value)];
    const detail = { run, at: { step: last, stage: "commit" } };
    element.dispatchEvent(new CustomEvent("ouro:run", { detail, bubbles: true }));
  });
  tell();
  label.append(make("span", "", "γ: guesses per step"), input, shown);
  element.append(label);
}
