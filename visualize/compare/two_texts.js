// @ts-check
// Two runs of one prompt: their common text, cut where both end a step, and the steps that one of
// them saved.
import { counted, foreign, make, mirrored, numberGoesOn } from "../kit/dom.js";

/**
 * A stretch of the common text, with the steps that each run took for it.
 * @typedef {{ text: string, tokens: number, a: number, b: number }} Segment
 * @typedef {{ texts: string[], lengths: number[] }} Run  lengths: the tokens of each step
 */

/**
 * Return the number of tokens before the first difference, or the length of the shorter text.
 * @param {Run} a
 * @param {Run} b
 */
export function common({ texts: a }, { texts: b }) {
  const shorter = Math.min(a.length, b.length);
  const where = a.findIndex((text, n) => n < shorter && text !== b[n]);
  return where < 0 ? shorter : where;
}

/**
 * Return the stretches between positions at which both runs end a step; neighbours with equally
 * many steps are one.
 * @param {Run} a
 * @param {Run} b
 * @returns {Segment[]}
 */
export function segments(a, b) {
  const end = common(a, b);
  const ends = [a, b].map(({ lengths }) => {
    let done = 0;
    return lengths.map((length) => (done += length));
  });
  const cuts = ends[0].filter((cut) => cut < end && ends[1].includes(cut));
  /** @type {Segment[]} */
  const found = [];
  let start = 0,
    before = [0, 0];
  for (const cut of end ? [...cuts, end] : []) {
    const until = ends.map((all) => 1 + all.findIndex((one) => one >= cut));
    const steps = { a: until[0] - before[0], b: until[1] - before[1] };
    const last = found.at(-1);
    const text = a.texts.slice(start, cut).join("");
    if (last && last.a === last.b && steps.a === steps.b) {
      last.text += text;
      last.tokens += cut - start;
      last.a += steps.a;
      last.b += steps.b;
    } else found.push({ text, tokens: cut - start, ...steps });
    start = cut;
    before = until;
  }
  return found;
}

/** @param {Segment[]} all */
function sentence(all) {
  const [a, b, tokens] = /** @type {const} */ (["a", "b", "tokens"]).map((key) =>
    all.reduce((sum, segment) => sum + segment[key], 0),
  );
  const text = `for the same ${counted(tokens, "token")}`;
  if (!tokens) return "The two texts have no token in common.";
  if (a === b) return `A and B need equally many steps, ${a}, ${text}.`;
  const [less, more] = a > b ? ["B", "A"] : ["A", "B"];
  const fewer = counted(Math.abs(a - b), "step");
  return `${less} needs ${fewer} fewer than ${more} ${text}: ${Math.min(a, b)} instead of ${Math.max(a, b)}.`;
}

/**
 * @param {Segment} segment
 * @param {number} most  the largest difference per token
 * @param {boolean} inside  whether the segment ends inside a number, where no words may stand
 */
function span({ text, tokens, a, b }, most, inside) {
  const node = make("span", "ouro-segment", text);
  node.title = `${counted(tokens, "token")}: ${counted(a, "step")} in A, ${counted(b, "step")} in B`;
  if (a === b) return node;
  node.dataset.saved = a > b ? "b" : "a";
  node.style.setProperty("--share", `${(100 * Math.abs(a - b)) / tokens / most}%`);
  if (inside) return node;
  const pill = make("small", "", (a > b ? "−" : "+") + counted(Math.abs(a - b), "step"));
  pill.dir = "ltr";
  node.append(pill);
  return node;
}

/**
 * Write the comparison of B with A into an element.
 * @param {HTMLElement} box
 * @param {Run} a
 * @param {Run} b
 */
export function drawTexts(box, a, b) {
  const all = segments(a, b);
  const most = Math.max(...all.map((one) => Math.abs(one.a - one.b) / one.tokens));
  const turned = mirrored(all.map(({ text }) => text).join(""));
  const text = foreign(make("div", "ouro-text ouro-two-text"));
  text.tabIndex = 0;
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", "The text that both share");
  text.append(
    ...all.map((one, n) =>
      span(one, most, turned && numberGoesOn(one.text, all[n + 1]?.text || "")),
    ),
  );
  const end = common(a, b);
  const parted = end < Math.min(a.texts.length, b.texts.length);
  const rest = parted ? ` The texts part at token ${end + 1}; what follows is not compared.` : "";
  box.replaceChildren(make("p", "ouro-two-said ouro-strong", sentence(all) + rest), text);
}
