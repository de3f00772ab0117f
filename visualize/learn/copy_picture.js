// @ts-check
// A copy and its source: an arc leads from the tokens in the question to the proposal.
import { draw, foreign, make } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

const ARC = 90; // pixels by which an arc bends to the side

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * @type {{ source: string[], answer: string[], copy: string, match: number, place: string }}
   *   source: the text before the match, the match, the copied tokens, the text after them;
   *   answer: the text before the match, and the match
   */
  const { source, answer, copy, match, place } = JSON.parse(value);
  const box = make("div", "ouro-arc-box");

  /**
   * @param {string} name
   * @param {[string, string][]} parts  texts with their looks
   */
  function block(name, parts) {
    const text = foreign(make("p", "ouro-copy-text"));
    for (const [part, look] of parts) {
      const span = make("span", "", part);
      span.dataset.look = look;
      text.append(span);
    }
    box.append(make("p", "ouro-arc-name ouro-strong ouro-flat", name), text);
    return text;
  }

  const above = block(place, [
    ["… " + source[0], "later"],
    [source[1], "match"],
    [source[2], "copy"],
    [source[3] + " …", "later"],
  ]);
  const below = block("The text so far, and the proposal", [
    ["… " + answer[0], "later"],
    [answer[1], "match end"],
    [copy, "copy"],
  ]);
  const arcs = draw("svg", { class: "ouro-arcs", "aria-hidden": "true" });
  box.append(arcs);

  /** Draw an arc from each marked text of the source to its equal. */
  function paint() {
    if (!box.getClientRects().length) return; // the reader has moved on
    const frame = box.getBoundingClientRect();
    /**
     * @param {HTMLElement} text
     * @param {string} look
     * @param {boolean} lower
     */
    const point = (text, look, lower) => {
      const rect = text.querySelector(`[data-look~="${look}"]`).getClientRects();
      const { left, width, top, bottom } = lower ? rect[rect.length - 1] : rect[0];
      return [left + width / 2 - frame.left, (lower ? bottom : top) - frame.top];
    };
    arcs.replaceChildren(
      ...["match", "copy"].map((look) => {
        const [x0, y0] = point(above, look, true),
          [x1, y1] = point(below, look, false);
        const bend = (y0 + y1) / 2;
        const line = draw("path", {
          d: `M${x0} ${y0}C${x0 + ARC} ${bend} ${x1 + ARC} ${bend} ${x1} ${y1 - 3}m0 -8v8h8`,
        });
        line.dataset.look = look;
        return line;
      }),
    );
  }
  new ResizeObserver(paint).observe(box);
  element.append(
    box,
    make(
      "figcaption",
      "",
      `Yellow: the last ${match} tokens, and where they occurred before. Blue: what followed there ` +
        "is the proposal.",
    ),
  );
}
