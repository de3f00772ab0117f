// @ts-check
// Two runs of one prompt: their common text, cut where both end a step, and where one needed fewer
// steps; or why they cannot be compared.
import { bring, counted, fill, make, mirrored, numberGoesOn } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/**
 * @typedef {{ text: string, tokens: number, a: number, b: number, saved: number }} Segment
 * @type {Mount}
 */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-diff");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-diff-" + name);

  /** @param {{ name: string, settings: string, steps: number, seconds: number }} run */
  const described = ({ name, settings, steps, seconds }) =>
    `${name}: ${settings}; ${steps} steps, ${seconds.toFixed(2)} s`;

  function paint() {
    const value = props.value && JSON.parse(props.value);
    for (const name of ["title", "status", "lines", "lanes", "text", "key", "table"])
      part(name).replaceChildren();
    part("problem").textContent = (value && value.problem) || "";
    part("found").hidden = !value || !value.segments;
    if (part("found").hidden) return;
    part("title").textContent = value.title;
    part("status").textContent = value.status;
    part("lanes").replaceChildren(
      ...value.lanes.map((/** @type {any} */ lane) => make("li", "", described(lane))),
    );
    part("lines").replaceChildren(
      ...value.lines.map((/** @type {string} */ line) => fill(make("p"), line)),
    );
    /** @type {Segment[]} */
    const segments = value.segments;
    const most = Math.max(...segments.map(share));
    const turned = mirrored(segments.map(({ text }) => text).join(""));
    segments.forEach((segment, n) => {
      const next = segments[n + 1]?.text || "",
        inside = turned && numberGoesOn(segment.text, next);
      part("text").append(span(segment, most, inside));
    });
    part("key").append(...key(segments));
    const head = make("tr");
    for (const name of value.head) head.append(make("th", "", name));
    part("table").append(head);
    for (const row of value.rows) {
      const line = make("tr");
      for (const cell of row) line.append(fill(make("td"), String(cell)));
      part("table").append(line);
    }
  }

  /**
   * Return the steps that one run saved for each token of the segment.
   * @param {{ saved: number, tokens: number }} segment
   */
  const share = ({ saved, tokens }) => Math.abs(saved) / tokens;

  /**
   * @param {HTMLElement} node
   * @param {number} saved
   * @param {number} depth
   */
  function looks(node, saved, depth) {
    node.dataset.saved = saved > 0 ? "b" : "a";
    node.style.setProperty("--share", `${100 * depth}%`);
    return node;
  }

  /**
   * Name the colours that occur.
   * @param {Segment[]} segments
   */
  function key(segments) {
    const meanings = [
      { sign: 1, meaning: "B needs fewer steps" },
      { sign: -1, meaning: "B needs more steps" },
    ].filter(({ sign }) => segments.some(({ saved }) => saved * sign > 0));
    const words = meanings.map(({ sign, meaning }) =>
      looks(make("span", "ouro-segment", meaning), sign, 1),
    );
    if (words.length)
      words.push(make("span", "", "stronger colour: a larger difference per token"));
    return words;
  }

  /**
   * @param {Segment} segment
   * @param {number} most
   * @param {boolean} inside  whether the segment ends inside a number, where no words may stand
   */
  function span(segment, most, inside) {
    const node = make("span", "ouro-segment", segment.text);
    node.title = `${segment.tokens} tokens: ${segment.a} steps in A, ${segment.b} in B`;
    if (!segment.saved) return node;
    looks(node, segment.saved, share(segment) / most);
    if (inside) return node;
    node.append(
      make("small", "", (segment.saved > 0 ? "−" : "+") + counted(Math.abs(segment.saved), "step")),
    );
    /** @type {HTMLElement} */ (node.lastChild).dir = "ltr";
    return node;
  }

  paint();
  watch("value", () => {
    paint();
    bring(root);
  });
}
