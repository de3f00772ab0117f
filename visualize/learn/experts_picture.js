// @ts-check
// How many experts of a layer the rows of a pass wake, if each row chooses some at random.
import { counted, make } from "../kit/dom.js";
import { stepper } from "../kit/stepper.js";
/** @import { Mount } from "../kit/types" */

const MOST = 64; // rows

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ experts: number, active: number }} */
  const { experts, active } = JSON.parse(value);
  const grid = make("div", "ouro-experts-grid"),
    said = make("p", "ouro-picture-said");
  said.setAttribute("role", "status");
  grid.dataset.part = "woken";
  const steps = stepper("Rows in the pass", (at) => paint(at + 1), 1);
  const squares = Array.from({ length: experts }, () => make("i"));
  grid.append(...squares);
  /** @param {number} rows */
  function paint(rows) {
    const woken = experts * (1 - (1 - active / experts) ** rows);
    // in an order that looks like chance, the same at each visit
    squares.forEach((square, n) =>
      square.toggleAttribute("data-on", ((n * 53) % experts) + 0.5 < woken),
    );
    said.textContent =
      `${counted(rows, "row")}: about ${Math.round(woken)} of ${experts} experts are read, ` +
      `${(woken / active).toFixed(1)}× the weights of one row.`;
  }
  const note =
    `An example: ${experts} experts in a layer, of which each row uses ${active}, as if chosen at ` +
    "random. Neighbouring tokens choose more alike, so it is somewhat fewer.";
  element.append(steps.element, grid, said, make("figcaption", "", note));
  steps.range(MOST - 1, 4);
}
