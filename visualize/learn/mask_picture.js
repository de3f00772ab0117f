// @ts-check
// Which rows a row sees: a proposal as a tree, and beside it the attention mask. A node under the
// pointer lights up with its ancestors.
import { draw, make, quote, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ run: string, step: number, tokens: string[], parents: number[], looks: string[] }} */
  const { run, step, tokens, parents, looks } = JSON.parse(value);
  const said = make("p", "ouro-picture-said"),
    box = make("div", "ouro-mask-box");
  const ancestors = parents.map((parent, n) => (parent < 0 ? [0] : [n]));
  parents.forEach((parent, n) => parent >= 0 && ancestors[n].push(...ancestors[parent]));
  said.setAttribute("role", "status");

  const size = 22,
    tree = make("ul", "ouro-mask-tree ouro-list"),
    depth = ancestors.map((seen) => seen.length - 1);
  tree.setAttribute("role", "listbox");
  tree.setAttribute("aria-label", "Rows of the pass; arrow keys move");
  const items = tokens.map((text, n) => {
    const item = make("li", "ouro-mask-node ouro-size-s ouro-press ouro-mono", visible(text));
    item.translate = false;
    item.id = `ouro-mask-${n}`;
    item.setAttribute("role", "option");
    item.style.setProperty("--depth", String(depth[n]));
    item.dataset.look = looks[n];
    item.dataset.position = "+" + depth[n];
    item.addEventListener("pointerenter", () => light(n));
    item.addEventListener("click", () => light(n, true));
    item.addEventListener("focus", () => light(n));
    item.addEventListener("keydown", (event) => {
      /** @type {Record<string, number>} */
      const targets = { ArrowRight: n + 1, ArrowLeft: n - 1, Home: 0, End: tokens.length - 1 };
      move(event, targets[event.key], true);
    });
    return item;
  });
  tree.append(...items);

  const side = tokens.length * size + 2;
  const picture = draw("svg", {
    viewBox: `0 0 ${side} ${side}`,
    class: "ouro-mask-matrix",
    height: side,
    preserveAspectRatio: "none", // its lines are as high as the nodes beside them
    role: "img",
    "aria-label": "Attention mask: rows see columns",
  });
  const cells = tokens.map((_, row) =>
    tokens.map((_, column) => {
      const cell = draw("rect", {
        x: column * size + 2,
        y: row * size + 2,
        width: size - 2,
        height: size - 2,
        rx: 3,
        class: "ouro-mask-cell",
      });
      if (ancestors[row].includes(column)) cell.dataset.seen = "";
      cell.addEventListener("pointerenter", () => light(row));
      cell.addEventListener("click", () => light(row, true));
      picture.append(cell);
      return cell;
    }),
  );

  let lit = tokens.length - 1;
  /**
   * Go to another row, if a key leads to one.
   * @param {KeyboardEvent} event
   * @param {number | undefined} to
   * @param {boolean} focus
   */
  function move(event, to, focus) {
    if (to === undefined || !items[to]) return;
    light(to, focus);
    event.preventDefault();
  }

  /** @param {KeyboardEvent} event  of a key pressed anywhere in the lessons or at no element */
  function vertical(event) {
    if (!element.isConnected) return document.removeEventListener("keydown", vertical);
    const at = /** @type {HTMLElement} */ (event.target),
      inside = at === document.body || at.closest(".ouro-learn-text, .ouro-mask");
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (inside && by) move(event, lit + by, at.closest(".ouro-mask") !== null);
    return undefined;
  }
  document.addEventListener("keydown", vertical);

  /**
   * @param {number} n
   * @param {boolean} focus
   */
  function light(n, focus = false) {
    lit = n;
    items.forEach((item, m) => {
      item.tabIndex = m === n ? 0 : -1;
      item.setAttribute("aria-selected", String(m === n));
      item.toggleAttribute("data-lit", ancestors[n].includes(m));
    });
    cells.forEach((line, row) =>
      line.forEach((cell) => cell.toggleAttribute("data-lit", row === n)),
    );
    if (focus && document.activeElement !== items[n]) items[n].focus({ preventScroll: true });
    const seen = [...ancestors[n]].reverse().flatMap((m) => [" ", quote(visible(tokens[m]))]);
    const count = ancestors[n].length;
    said.replaceChildren(
      `Row ${n + 1}, “`,
      quote(visible(tokens[n])),
      `”, sees the whole text before it, and ${count} of these rows:`,
      ...seen,
      `. It does not see the other ${tokens.length - count}.`,
    );
  }

  box.append(tree, picture);
  element.append(
    box,
    said,
    make(
      "figcaption",
      "",
      `Left: the rows of a pass, each indented below its parent; blue, the draft; green, the ` +
        `suffixes. (${run}, step ${step + 1}.) Right: the mask; filled where the row of this ` +
        "line sees the row of this column. +n: its position after the text.",
    ),
  );
  light(tokens.length - 1);
}
