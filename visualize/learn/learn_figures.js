// @ts-check
// The pictures of the lessons by name. Each is made of plain data, or of a text that the reader
// types.
import { mount as mountAutomaton } from "./automaton_picture.js";
import { make } from "../kit/dom.js";
import { mount as mountExperts } from "./experts_picture.js";
import { mount as mountArc } from "./copy_picture.js";
import { mount as mountDraft } from "./draft_picture.js";
import { mount as mountMask } from "./mask_picture.js";
import { mount as mountPass } from "./pass_picture.js";
import { mount as mountPool } from "./pool_picture.js";
import { mount as mountRace } from "./race_picture.js";
import { mount as mountShape } from "./shape_picture.js";
import { mount as mountSnake } from "./snake_picture.js";
import { mount as mountTime } from "./step_time_picture.js";
import { mount as mountWindow } from "./window_picture.js";
/** @import { Mount } from "../kit/types" */

/**
 * Show a worked example in numbers.
 * @type {Mount}
 */
function mountHundred(element, { value }) {
  const { columns, rows } = JSON.parse(value),
    table = make("table", "ouro-table"),
    head = make("tr");
  for (const name of columns) head.append(make("th", "", name));
  table.append(head);
  for (const [token, ...counts] of rows) {
    const line = make("tr");
    line.append(
      make("th", "", token),
      ...counts.map((/** @type {number} */ count, /** @type {number} */ n) => {
        const cell = make("td", "", String(count));
        cell.dataset.part = columns[n + 1].replace(" ", "_");
        return cell;
      }),
    );
    table.append(line);
  }
  element.append(table, make("figcaption", "", "100 draws of the draft"));
}

/**
 * Show a table whose rows have names, in their last cell, that texts link to.
 * @type {Mount}
 */
function mountTable(element, { value }) {
  /** @type {{ columns: string[], rows: string[][], title: string }} */
  const { columns, rows, title } = JSON.parse(value),
    table = make("table", "ouro-table"),
    head = make("tr");
  head.append(...columns.map((name) => make("th", "", name)));
  table.append(head);
  for (const row of rows) {
    const line = make("tr"),
      [label, ...cells] = row.slice(0, -1);
    line.dataset.part = row[row.length - 1];
    line.append(
      make("th", "", label),
      ...cells.map((text, n) => {
        const cell = make("td", "", text);
        cell.dataset.label = columns[n + 1];
        return cell;
      }),
    );
    table.append(line);
  }
  element.append(table, make("figcaption", "", title));
}

/**
 * Show a bar for each of a few numbers; the line is plain decoding, at 1.
 * @type {Mount}
 */
function mountBars(element, { value }) {
  /** @type {{ title: string, rows: [string, number, string][] }} */
  const { title, rows } = JSON.parse(value);
  const list = make("ul", "ouro-bars-list ouro-list"),
    most = 1.1 * Math.max(...rows.map(([, number]) => number));
  for (const [label, number, part] of rows) {
    const item = make("li"),
      track = make("span", "ouro-bars-track"),
      bar = make("i"),
      plain = make("b");
    bar.style.width = (100 * number) / most + "%";
    plain.style.left = 100 / most + "%";
    item.dataset.part = part;
    track.append(bar, plain);
    item.append(make("span", "", label), track, make("strong", "", number.toFixed(2)));
    list.append(item);
  }
  element.append(list, make("figcaption", "", title));
}

/**
 * Pictures by name; any other is the shape of a proposal.
 * @type {Record<string, Mount>}
 */
const FIGURES = {
  hundred: mountHundred,
  automaton: mountAutomaton,
  batch: mountTime,
  benched: mountBars,
  copy: mountArc,
  yourself: mountDraft,
  experts: mountExperts,
  lengths: mountRace,
  pass: mountPass,
  race: mountRace,
  runs: mountRace,
  snake: mountSnake,
  sources: mountTable,
  time: mountTime,
  mask: mountMask,
  pool: mountPool,
  window: mountWindow,
};

/**
 * @param {string} name
 * @param {object} data
 */
export function drawFigure(name, data) {
  const figure = make("figure", "ouro-picture ouro-" + name);
  (FIGURES[name] || mountShape)(figure, { value: JSON.stringify(data) });
  return figure;
}
