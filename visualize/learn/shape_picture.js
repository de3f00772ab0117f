// @ts-check
// The shape of a recorded proposal: boxes are draft passes, in their order, with the tokens that each
// gives; a proposal without a draft pass is looked up. Above them are the target's layers, if a head
// reads hidden states after some of them.
import { counted, foreign, make, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ passes: number, levels: string[][], more: boolean, layers: number, read: number[] }} */
  const { passes, levels, more, layers, read } = JSON.parse(value);
  const strip = make("div", "ouro-shape-layers");
  strip.dataset.part = "layers";
  for (let layer = 1; read.length && layer <= layers; layer += 1) {
    const bar = make("i");
    bar.toggleAttribute("data-read", read.includes(layer));
    strip.append(bar);
  }
  const line = make("ol", "ouro-shape-line ouro-wrap ouro-list"),
    each = Math.ceil(levels.length / Math.max(1, passes));
  line.dataset.part = "passes";
  for (let n = 0; n < levels.length; n += each) {
    const box = make("li", "ouro-shape-pass");
    box.dataset.look = passes ? "pass" : "lookup";
    for (const level of levels.slice(n, n + each)) {
      const column = foreign(make("span", "ouro-shape-level ouro-size-s ouro-mono"));
      column.append(
        ...level.map((text) => make("span", "ouro-token-chip ouro-bordered", visible(text))),
      );
      box.append(column);
    }
    line.append(box);
  }
  const boxes = passes === 1 ? "the box" : "the boxes, one after another";
  const made = passes
    ? `${counted(passes, "draft pass", "draft passes")}: ${boxes}.`
    : "No draft pass: the tokens are looked up.";
  const states = read.length
    ? `Bars: the ${layers} layers of the target; the head reads hidden states after the green ones. `
    : "";
  const text = `${states}${made} Columns: positions.${more ? " Three tokens of each." : ""}`;
  element.append(...(states ? [strip] : []), line, make("figcaption", "", text));
}
