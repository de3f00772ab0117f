// @ts-check
// The token tree of one step: the accepted path thick, rejected branches dashed, the lookahead
// window on request. In a lesson the target's answers are below the guesses.
import { draw, make, visible } from "../kit/dom.js";
import { TokenText } from "./token_text.js";
/** @import { Looks, Step } from "../kit/types" */

/** Pixels of a letter, beside a text inside its box, and between boxes; run.css has the fonts. */
const ROOMY = { letter: 7.4, inset: 9, gap: 26 };
/** A tree that would be wider than its place. */
const DENSE = { letter: 7.3, inset: 4, gap: 9 };
const HIGH = 30; // pixels of a row
const ANSWERS = "target";

/** What the target wrote at a depth of the tree: an accepted guess, or its own token. */
/** @typedef {{ text: string, depth: number, node?: number, kind?: string }} Answer */

export class TreeView {
  /**
   * @param {HTMLElement} container
   * @param {Looks} looks
   * @param {(node: number, element: any) => void} pick  called with the number of a chosen node
   */
  constructor(container, looks, pick) {
    this.container = container;
    this.answering = container.closest(".ouro-learn") !== null;
    this.windowed = false;
    this.wasWindowed = false;
    this.looks = looks;
    this.pick = pick;
    /** @type {Step | null} */
    this.step = null;
    this.phase = Infinity;
    this.width = 0;
    if (this.answering) new ResizeObserver(() => this.refit()).observe(container);
    container.addEventListener("click", (event) => this.choose(event));
    container.addEventListener("keydown", (event) => this.key(event));
    container.addEventListener("scroll", () => this.edge(), { passive: true });
  }

  /** Fade the edges behind which the tree continues. */
  edge() {
    const { scrollLeft, clientWidth, scrollWidth } = this.container;
    this.container.toggleAttribute("data-before", scrollLeft > 2);
    this.container.toggleAttribute("data-more", scrollLeft + clientWidth < scrollWidth - 2);
  }

  /** @param {any} event */
  choose(event) {
    const node = event.target.closest && event.target.closest("[data-node]");
    if (node) this.pick(Number(node.dataset.node), node);
  }

  /** @param {any} event */
  key(event) {
    const node = event.target.closest("[data-node]");
    if (!node) return;
    if (event.key === "Enter" || event.key === " ") this.choose(event);
    else {
      const all = [...this.container.querySelectorAll("[data-node]")],
        at = all.indexOf(node);
      /** @type {Record<string, number>} */
      const keys = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      const by = keys[event.key];
      if (by === undefined || !all[at + by]) return;
      node.setAttribute("tabindex", "-1");
      all[at + by].setAttribute("tabindex", "0");
      all[at + by].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Place nodes in columns by depth, and in rows so that a branch continues in the row of its
   * parent.
   * @param {{ text: string, parent: number }[]} nodes
   * @param {typeof ROOMY} size
   * @param {Answer[]} answers
   */
  static layout(nodes, { letter, inset, gap }, answers) {
    /** @param {string} text */
    const wide = (text) => Math.min(150, 2 * inset + letter * [...visible(text)].length);
    const children = new Map();
    nodes.forEach(
      (node, n) =>
        n && (children.get(node.parent) || children.set(node.parent, []).get(node.parent)).push(n),
    );
    /** @type {number[]} */
    const widths = [];
    /** @type {{ depth: number, row: number }[]} */
    const cells = [];
    let row = 0;
    /**
     * @param {number} n
     * @param {number} depth
     */
    const walk = (n, depth) => {
      widths[depth] = Math.max(widths[depth] || 0, wide(nodes[n].text));
      cells[n] = { depth, row };
      (children.get(n) || []).forEach(
        (/** @type {number} */ child, /** @type {number} */ index) => {
          if (index) row += 1;
          walk(child, depth + 1);
        },
      );
    };
    walk(0, 0);
    for (const { depth, text } of answers) widths[depth] = Math.max(widths[depth] || 0, wide(text));
    if (answers.length) widths[0] = Math.max(widths[0], wide(ANSWERS));
    const starts = [4];
    widths.forEach((width, depth) => (starts[depth + 1] = starts[depth] + width + gap));
    return { cells, widths, starts, rows: row + 1, whole: starts.at(-1) - gap + 4 };
  }

  /**
   * @param {Step} step
   * @param {number} phase
   */
  show(step, phase) {
    const same = this.step === step && this.wasWindowed === this.windowed;
    if (!same) this.build(step);
    const path = step.tokens.filter((token) => token.node !== undefined).map((token) => token.node);
    const verdict = phase > TokenText.depth(step);
    for (const part of this.container.querySelectorAll("[data-below]")) {
      const node = Number(part.dataset.below),
        on = path.includes(node);
      part.dataset.state =
        part.dataset.window !== undefined
          ? "window"
          : !verdict
            ? "pending"
            : on
              ? "accepted"
              : "rejected";
      if (part.dataset.name)
        part.setAttribute("aria-label", part.dataset.name + ", " + part.dataset.state);
    }
    this.container.toggleAttribute("data-answered", verdict);
    this.phase = phase;
  }

  /** Draw a tree again whose place has become wider or narrower; what is marked stays marked. */
  refit() {
    const { step, container } = this;
    if (!step || !container.clientWidth || container.clientWidth === this.width) return;
    const marked = [...container.querySelectorAll("g")].map((node) => node.dataset.spot);
    this.build(step);
    this.show(step, this.phase);
    container.querySelectorAll("g").forEach((node, n) => {
      if (marked[n] !== undefined) node.dataset.spot = marked[n];
    });
  }

  /**
   * Return the target's answers along the accepted path. Behind a rejection they are not recorded.
   * @param {Step} step
   * @returns {Answer[]}
   */
  answers({ tokens }) {
    if (!this.answering) return [];
    return tokens.map(({ text, node, kind }, n) => ({ text, node, kind, depth: n + 1 }));
  }

  /** @param {Step} step */
  build(step) {
    this.step = step;
    this.wasWindowed = this.windowed;
    const nodes = [{ text: step.root, parent: -1, look: "context" }, ...step.nodes];
    const proposals = nodes.length;
    if (this.windowed)
      for (const [text, parent] of step.window || []) nodes.push({ text, parent, look: "phrase" });
    if (nodes.length === 1) {
      const none = make("p", "ouro-tree-none ouro-size-s", "Nothing was guessed in this step.");
      this.container.replaceChildren(none);
      return this.edge();
    }
    const answers = this.answers(step);
    const { clientWidth } = this.container;
    this.width = clientWidth;
    /** @param {typeof ROOMY} spacing */
    const place = (spacing) => TreeView.layout(nodes, spacing, answers);
    const size = [ROOMY, DENSE].find((spacing) => place(spacing).whole <= clientWidth) || DENSE;
    const layout = place(size),
      { cells, widths, starts, rows, whole: width } = layout;
    const high = HIGH,
      height = (rows + (answers.length ? 1.6 : 0)) * high + 8;
    this.container.toggleAttribute("data-dense", size === DENSE);
    const label = `Token tree of step ${step.index + 1}`;
    const svg = draw("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": label,
    });
    /** @param {number} n */
    const middle = (n) => 4 + cells[n].row * high + high / 2;
    nodes.forEach((node, n) => {
      if (!n) return;
      const from = starts[cells[node.parent].depth] + widths[cells[node.parent].depth],
        to = starts[cells[n].depth];
      const bend = (from + to) / 2,
        y0 = middle(node.parent),
        y1 = middle(n);
      const line = draw("path", {
        d: `M${from} ${y0}C${bend} ${y0} ${bend} ${y1} ${to} ${y1}`,
        class: "ouro-edge",
        "data-below": n,
      });
      if (n >= proposals) line.dataset.window = "";
      line.dataset.look = node.look;
      svg.append(line);
    });
    if (answers.length) svg.append(this.answerLines(answers, layout));
    nodes.forEach((node, n) => {
      const group = draw("g", { class: "ouro-node", ...(n ? { "data-below": n } : {}) });
      const short = TreeView.shorten(visible(node.text), widths[cells[n].depth], size);
      if (n >= proposals) group.dataset.window = "";
      else if (n) {
        group.dataset.node = String(n);
        group.setAttribute("tabindex", n === 1 ? "0" : "-1");
        group.setAttribute("role", "button");
        group.dataset.name = visible(node.text) + ", " + this.looks.get(node.look).proposer;
      }
      group.dataset.look = node.look;
      const box = {
        x: starts[cells[n].depth],
        y: middle(n) - 11,
        width: widths[cells[n].depth],
        height: 22,
        rx: 6,
      };
      group.append(
        draw("rect", box),
        draw("text", { x: box.x + size.inset, y: middle(n) + 4 }, short),
      );
      svg.append(group);
    });
    if (answers.length) svg.append(this.answerRow(answers, layout, size));
    this.container.replaceChildren(svg);
    requestAnimationFrame(() => this.edge());
  }

  /**
   * Return the lines from guesses to the answers below them. They come before the boxes, which cover
   * them.
   * @param {Answer[]} answers
   * @param {ReturnType<typeof TreeView.layout>} layout
   */
  answerLines(answers, { cells, widths, starts, rows }) {
    const lines = draw("g", { class: "ouro-answers" }),
      top = 4 + (rows + 0.6) * HIGH;
    /** @param {number} n */
    const middle = (n) => 4 + cells[n].row * HIGH + HIGH / 2;
    let above = 0;
    for (const { node, kind, depth } of answers) {
      const x = starts[depth],
        centre = x + Math.min(widths[depth], 40) / 2,
        from = node === undefined ? middle(above) : middle(node) + 11;
      const d =
        node === undefined
          ? `M${starts[depth - 1] + widths[depth - 1]} ${from}C${x} ${from} ${x - 12} ${top + 15} ${x} ${top + 15}`
          : `M${centre} ${from}V${top + 4}`;
      const line = draw("path", { d, class: "ouro-answer-line" });
      line.dataset.kind = node === undefined ? kind || "own" : "equal";
      lines.append(line);
      above = node ?? above;
    }
    return lines;
  }

  /**
   * Return the row of answers, each below the guess at its place: equal to it, or instead of it, or
   * behind the last one.
   * @param {Answer[]} answers
   * @param {ReturnType<typeof TreeView.layout>} layout
   * @param {typeof ROOMY} size
   */
  answerRow(answers, { widths, starts, rows }, size) {
    const row = draw("g", { class: "ouro-answers" }),
      top = 4 + (rows + 0.6) * HIGH;
    row.append(
      draw("text", { x: starts[0] + size.inset, y: top + 19, class: "ouro-answers-name" }, ANSWERS),
    );
    for (const { text, node, kind, depth } of answers) {
      const group = draw("g", { class: "ouro-answer", role: "img" }),
        x = starts[depth],
        shown = visible(text);
      group.dataset.kind = node === undefined ? kind || "own" : "equal";
      group.setAttribute("aria-label", `target: ${shown}, ${group.dataset.kind}`);
      group.append(
        draw("rect", { x, y: top + 4, width: widths[depth], height: 22, rx: 6 }),
        draw(
          "text",
          { x: x + size.inset, y: top + 19 },
          TreeView.shorten(shown, widths[depth], size),
        ),
      );
      row.append(group);
    }
    return row;
  }

  /**
   * Return a text as it fits into a box.
   * @param {string} text
   * @param {number} width
   * @param {typeof ROOMY} size
   */
  static shorten(text, width, { inset, letter }) {
    const fitting = Math.floor((width - 2 * inset) / letter + 0.01);
    return [...text].length > fitting ? [...text].slice(0, fitting - 1).join("") + "…" : text;
  }

  /** @param {number} node */
  select(node) {
    const parts = [...this.container.querySelectorAll("[data-node]")];
    for (const part of parts)
      part.toggleAttribute("data-selected", Number(part.dataset.node) === node);
    const box = this.container.getBoundingClientRect(),
      at = parts.find((part) => part.hasAttribute("data-selected"))?.getBoundingClientRect();
    if (!at) return;
    if (at.left < box.left || at.right > box.right)
      this.container.scrollLeft += (at.left + at.right - box.left - box.right) / 2;
    if (at.top < box.top || at.bottom > box.bottom)
      this.container.scrollTop += (at.top + at.bottom - box.top - box.bottom) / 2;
  }
}
