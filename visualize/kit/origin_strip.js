// @ts-check
// A run as a strip in the colours of its tokens' writers, see visualize/run/strip.py.
import { make } from "./dom.js";

/** @typedef {{ steps: [number, string][], told: string }} Strip */

/**
 * Return the tokens of a step: "a12b3" is twelve of the first look and three of the second.
 * @param {string} run
 * @returns {[string, number][]}
 */
const parts = (run) =>
  [...run.matchAll(/([a-z])(\d+)/g)].map(([, letter, count]) => [letter, Number(count)]);

/** @param {[number, string]} step */
export const tokensOf = ([, run]) => parts(run).reduce((sum, [, count]) => sum + count, 0);

/**
 * Return the looks that occur in a strip.
 * @param {Strip} strip
 * @param {{ look: string }[]} looks  the legend
 */
export function looksOf({ steps }, looks) {
  const letters = new Set(steps.flatMap(([, run]) => [...run]));
  return looks.map(({ look }) => look).filter((_, n) => letters.has(String.fromCharCode(97 + n)));
}

/**
 * Name the colours that occur in some strips.
 * @param {HTMLElement} list
 * @param {Strip[]} strips
 * @param {{ look: string, glyph: string, label: string }[]} looks  the legend
 */
export function drawKey(list, strips, looks) {
  const occurring = new Set(strips.flatMap((strip) => looksOf(strip, looks)));
  list.replaceChildren();
  looks.forEach(({ look, glyph, label }) => {
    if (!occurring.has(look)) return;
    const item = make("li", "ouro-key"),
      sign = make("span", "ouro-glyph", glyph);
    item.dataset.look = look;
    sign.setAttribute("aria-hidden", "true");
    item.append(sign, label);
    list.append(item);
  });
}

/**
 * Return the strip of a run.
 * @param {Strip} run
 * @param {{ look: string }[]} looks  the legend
 * @param {number[]} lengths  of the steps; without them a token is as long as any other
 */
export function originStrip({ steps, told }, looks, lengths = steps.map(tokensOf)) {
  const bar = make("div", "ouro-strip");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", told);
  steps.forEach(([, run], n) => {
    const pass = make("span");
    pass.style.flexGrow = String(1000 * lengths[n]); // a sum below 1 would leave a gap
    for (const [letter, count] of parts(run)) {
      const part = make("i");
      part.dataset.look = looks[letter.charCodeAt(0) - 97].look;
      part.style.flexGrow = String(count);
      pass.append(part);
    }
    bar.append(pass);
  });
  return bar;
}
