// @ts-check
// One pass of a model: its weights travel from memory to the processor once, for all rows. The
// results for earlier tokens stay in the cache.
import { counted, draw, make, visible } from "../kit/dom.js";
import { stepper } from "../kit/stepper.js";
/** @import { Mount } from "../kit/types" */

const LAYERS = 6; // drawn, of the model's layers
const WIDE = 720;
const HIGH = 268;
const ROW = 32; // pixels from one row to the next
const OLD = 16; // entries of the cache that are drawn

/**
 * Draw a box with its name.
 * @param {number} x
 * @param {number} width
 * @param {string} name
 */
function room(x, width, name) {
  const group = draw("g", { class: "ouro-pass-room" });
  group.append(
    draw("rect", { x, y: 28, width, height: HIGH - 36, rx: 10 }),
    draw("text", { x: x + 4, y: 18 }, name),
  );
  return group;
}

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * @type {{ tokens: string[], rows: number, cost: number, layers: number }}  `cost`: of a pass over
   *   `rows` rows on average, in passes over one row
   */
  const { tokens, rows: measured, cost, layers } = JSON.parse(value);
  const box = make("div", "ouro-pass-picture"),
    bars = make("div", "ouro-pass-bars"),
    said = make("p", "ouro-picture-said");
  said.setAttribute("role", "status");
  const steps = stepper("Rows in the pass", (at) => paint(at + 1), 1);
  /**
   * Return the cost of a pass, on the line through the two measured ones.
   * @param {number} rows
   */
  const priceOf = (rows) => 1 + ((cost - 1) * (rows - 1)) / (measured - 1);

  /** @param {number} rows */
  function paint(rows) {
    const svg = draw("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`,
      role: "img",
      "aria-label": `All weights travel once from memory to the processor, for ${counted(rows, "row")}`,
    });
    svg.append(room(2, 250, "memory"), room(452, 266, "processor"));
    for (let n = 0; n < LAYERS; n++) {
      const y = 44 + n * 22;
      svg.append(
        draw("rect", {
          x: 16,
          y,
          width: 222,
          height: 16,
          rx: 4,
          class: "ouro-pass-weights",
          "data-part": "weights",
        }),
      );
      const moving = draw("rect", {
        x: 16,
        y,
        width: 222,
        height: 16,
        rx: 4,
        class: "ouro-pass-moving",
      });
      moving.style.animationDelay = n * 0.5 + "s";
      svg.append(moving);
    }
    svg.append(
      draw("text", { x: 24, y: 192, class: "ouro-pass-note" }, `weights: ${layers} layers`),
      draw("path", { d: "M262 104H438m-10 -7l10 7l-10 7", class: "ouro-pass-arrow" }),
      draw("text", { x: 350, y: 92, class: "ouro-pass-note ouro-pass-once" }, "all weights,"),
      draw("text", { x: 350, y: 124, class: "ouro-pass-note ouro-pass-once" }, "once a pass"),
      draw("path", {
        d: "M262 222H438m-10 -5l10 5l-10 5",
        class: "ouro-pass-arrow ouro-pass-thin",
      }),
    );
    for (let n = 0; n < OLD + rows; n++)
      svg.append(
        draw("rect", {
          x: 16 + n * 10.5,
          y: 212,
          width: 8,
          height: 18,
          rx: 2,
          class: "ouro-pass-cache",
          "data-part": "cache",
          "data-new": String(n >= OLD),
        }),
      );
    svg.append(
      draw("text", { x: 24, y: 248, class: "ouro-pass-note" }, "cache of the earlier tokens"),
    );
    tokens.slice(0, rows).forEach((text, n) => {
      const y = 44 + n * ROW,
        group = draw("g", { class: "ouro-pass-row", "data-part": "row" });
      group.append(
        draw("rect", { x: 466, y, width: 238, height: 24, rx: 6 }),
        draw("text", { x: 476, y: y + 16, translate: "no" }, visible(text)),
      );
      const work = draw("rect", {
        x: 590,
        y: y + 8,
        width: 104,
        height: 8,
        rx: 4,
        class: "ouro-pass-work",
      });
      group.append(work);
      svg.append(group);
    });
    svg.append(
      draw(
        "text",
        { x: 474, y: 248, class: "ouro-pass-note" },
        `${counted(rows, "row")} use each weight`,
      ),
    );
    box.replaceChildren(svg);
    const once = priceOf(rows);
    bars.replaceChildren(
      bar(`one pass over ${counted(rows, "row")}`, [once]),
      bar(`${counted(rows, "pass", "passes")} over one row`, Array(rows).fill(1)),
    );
    said.textContent =
      rows === 1
        ? "One row: the processor waits for the weights most of the time."
        : `${rows} rows: one pass takes ${once.toFixed(2)}× as long as over one row, ` +
          `${rows} passes ${rows.toFixed(2)}×.`;
  }

  /**
   * @param {string} label
   * @param {number[]} parts  their lengths, in passes over one row
   */
  function bar(label, parts) {
    const line = make("div", "ouro-pass-bar ouro-size-m"),
      track = make("span", "ouro-pass-track");
    for (const part of parts) {
      const piece = make("i");
      piece.style.width = (100 * part) / tokens.length + "%";
      track.append(piece);
    }
    if (parts.length === 1) line.dataset.part = "once";
    line.append(make("span", "", label), track);
    return line;
  }

  element.append(
    steps.element,
    box,
    bars,
    said,
    make(
      "figcaption",
      "",
      `Bars to scale: time of a pass, on the line between two measured ones, over one row and over ` +
        `${measured.toFixed(1)} rows on average. Outlined: entries that this pass adds to the cache.`,
    ),
  );
  steps.range(tokens.length - 1, tokens.length - 1);
}
