// @ts-check
// The shape of a recorded proposal: boxes are draft passes, in their order, with the tokens that each
// gives; a proposal without a draft pass is looked up.
import { counted, foreign, make, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ passes: number, levels: string[][], more: boolean }} */
  const { passes, levels, more } = JSON.parse(value);
  const line = make("ol", "ouro-shape-line ouro-list"),
    each = Math.ceil(levels.length / Math.max(1, passes));
  for (let n = 0; n < levels.length; n += each) {
    const box = make("li", "ouro-shape-pass");
    box.dataset.look = passes ? "pass" : "lookup";
    for (const level of levels.slice(n, n + each)) {
      const column = foreign(make("span", "ouro-shape-level"));
      column.append(...level.map((text) => make("span", "ouro-token-chip", visible(text))));
      box.append(column);
    }
    line.append(box);
  }
  const boxes = passes === 1 ? "the box" : "the boxes, one after another";
  const made = passes
    ? `${counted(passes, "draft pass", "draft passes")}: ${boxes}.`
    : "No draft pass: the tokens are looked up.";
  element.append(
    line,
    make("figcaption", "", made + " Columns: positions." + (more ? " Three tokens of each." : "")),
  );
}
