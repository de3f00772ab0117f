// The pictures of the lessons, by their names: each is made of plain data, or of what a reader
// types.
import { mount as mountAutomaton } from "./automaton_picture.js";
import { make } from "../kit/dom.js";
import { mount as mountMask } from "./mask_picture.js";
import { mount as mountPool } from "./pool_picture.js";
import { mount as mountWindow } from "./window_picture.js";

// A worked example in numbers.
function mountHundred(element, { value }) {
  const { columns, rows } = JSON.parse(value),
    table = make("table", "ouro-table"),
    head = make("tr");
  for (const name of columns) head.append(make("th", "", name));
  table.append(head);
  for (const [token, ...counts] of rows) {
    const line = make("tr");
    line.append(make("th", "", token), ...counts.map((count) => make("td", "", String(count))));
    table.append(line);
  }
  element.append(table, make("figcaption", "", "100 draws of the draft"));
}

const FIGURES = {
  hundred: mountHundred,
  automaton: mountAutomaton,
  mask: mountMask,
  pool: mountPool,
  window: mountWindow,
};

export function drawFigure(name, data) {
  const figure = make("figure", "ouro-picture ouro-" + name);
  FIGURES[name](figure, { value: JSON.stringify(data) });
  return figure;
}
