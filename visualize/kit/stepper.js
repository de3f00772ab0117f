// @ts-check
// A slider with a step back and a step forward, for pictures with numbered positions.
import { make } from "./dom.js";

/**
 * Return the slider's element, `go` to move it, and `range` to set its last position and move it.
 * @param {string} label  the name of a position
 * @param {(at: number) => void} draw  paints a position
 * @param {number} first  the shown number of the first position
 */
export function stepper(label, draw, first = 0) {
  const element = make("div", "ouro-stepper"),
    name = make("label"),
    input = make("input"),
    value = make("output");
  /**
   * @param {string} text
   * @param {number} by
   * @param {string} said
   */
  const button = (text, by, said) => {
    const made = make("button", "", text);
    made.type = "button";
    made.setAttribute("aria-label", said);
    made.addEventListener("click", () => go(Number(input.value) + by));
    return made;
  };
  const back = button("◀", -1, `${label}: one back`),
    on = button("▶", 1, `${label}: one further`);
  Object.assign(input, { type: "range", min: "0", max: "0", step: "1", value: "0" });
  name.append(make("span", "", label), input);
  element.append(back, name, on, value);

  /** @param {number} at */
  function go(at) {
    input.value = String(Math.max(0, Math.min(Number(input.max), at)));
    value.textContent = `${Number(input.value) + first} of ${Number(input.max) + first}`;
    input.setAttribute("aria-valuetext", value.textContent);
    back.disabled = Number(input.value) === 0;
    on.disabled = input.value === input.max;
    draw(Number(input.value));
  }

  input.addEventListener("input", () => go(Number(input.value)));
  return {
    element,
    go,
    /**
     * @param {number} most
     * @param {number} at
     */
    range(most, at) {
      input.max = String(most);
      go(at);
    },
  };
}
