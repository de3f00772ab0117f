// @ts-check
// The token tree of one step: the accepted path thick, rejected branches dashed, the lookahead
// window on request.
import { draw, make, visible } from "../kit/dom.js";
import { TokenText } from "./token_text.js";
/** @import { Looks, Step } from "../kit/types" */

/** Pixels of a letter, beside a text inside its box, and between boxes; run.css has the fonts. */
const ROOMY = { letter: 7.4, inset: 9, gap: 26 };
/** A tree that would be wider than its place. */
const DENSE = { letter: 6.1, inset: 4, gap: 9 };

export class TreeView {
  /**
   * @param {HTMLElement} container
   * @param {Looks} looks
   * @param {(node: number, element: any) => void} pick  called with the number of a chosen node
   */
  constructor(container, looks, pick) {
    this.container = container;
    this.windowed = false;
    this.wasWindowed = false;
    this.looks = looks;
    this.pick = pick;
    /** @type {Step | null} */
    this.step = null;
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
   */
  static layout(nodes, { letter, inset, gap }) {
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
      const text = visible(nodes[n].text);
      widths[depth] = Math.max(
        widths[depth] || 0,
        Math.min(150, 2 * inset + letter * [...text].length),
      );
      cells[n] = { depth, row };
      (children.get(n) || []).forEach(
        (/** @type {number} */ child, /** @type {number} */ index) => {
          if (index) row += 1;
          walk(child, depth + 1);
        },
      );
    };
    walk(0, 0);
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
      const none = make("p", "ouro-tree-none", "Nothing was guessed in this step.");
      this.container.replaceChildren(none);
      return this.edge();
    }
    const { clientWidth } = this.container,
      fits = [ROOMY, DENSE].find((size) => TreeView.layout(nodes, size).whole <= clientWidth),
      size = fits || DENSE;
    const { cells, widths, starts, rows, whole: width } = TreeView.layout(nodes, size);
    const high = 30,
      height = rows * high + 8;
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
    nodes.forEach((node, n) => {
      const group = draw("g", { class: "ouro-node", ...(n ? { "data-below": n } : {}) });
      const text = visible(node.text),
        fitting = Math.floor((widths[cells[n].depth] - 2 * size.inset) / size.letter + 0.01);
      const short =
        [...text].length > fitting ? [...text].slice(0, fitting - 1).join("") + "…" : text;
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
    this.container.replaceChildren(svg);
    requestAnimationFrame(() => this.edge());
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
