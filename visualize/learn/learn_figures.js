// @ts-check
// The pictures of the lessons by name. Each is made of plain data, or of a text that the reader
// types.
import { mount as mountAutomaton } from "./automaton_picture.js";
import { foreign, make } from "../kit/dom.js";
import { mount as mountExperts } from "./experts_picture.js";
import { mount as mountArc } from "./copy_picture.js";
import { mount as mountDraft } from "./draft_picture.js";
import { mount as mountGrid } from "./grid_picture.js";
import { mount as mountMask } from "./mask_picture.js";
import { mount as mountPass } from "./pass_picture.js";
import { mount as mountPool } from "./pool_picture.js";
import { mount as mountRace } from "./race_picture.js";
import { mount as mountShape } from "./shape_picture.js";
import { mount as mountSnake } from "./snake_picture.js";
import { mount as mountTemperature } from "./temperature_picture.js";
import { mount as mountTime } from "./step_time_picture.js";
import { mount as mountWindow } from "./window_picture.js";
/** @import { Mount } from "../kit/types" */

/**
 * Show a table; the words beside it link to its rows or to its columns.
 * @type {Mount}
 */
function mountTable(element, { value }) {
  /**
   * @type {{ columns: string[], rows: (string | number)[][], title: string,
   *   row_parts?: string[], column_parts?: string[], quoted?: boolean }}  quoted: the first column has
   *   tokens or names
   */
  const { columns, rows, title, row_parts, column_parts, quoted } = JSON.parse(value),
    table = make("table", "ouro-table"),
    head = make("tr");
  head.append(...columns.map((name) => make("th", "", name)));
  table.append(head);
  rows.forEach((cells, index) => {
    const line = make("tr");
    if (row_parts) line.dataset.part = row_parts[index];
    cells.forEach((text, n) => {
      const cell = make(n ? "td" : "th", "", String(text));
      if (quoted && !n) foreign(cell);
      if (column_parts && n) cell.dataset.part = column_parts[n];
      line.append(cell);
    });
    table.append(line);
  });
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
 * Pictures by kind.
 * @type {Record<string, Mount>}
 */
const KINDS = {
  automaton: mountAutomaton,
  bars: mountBars,
  copy: mountArc,
  draft: mountDraft,
  experts: mountExperts,
  grid: mountGrid,
  mask: mountMask,
  pass: mountPass,
  pool: mountPool,
  race: mountRace,
  shape: mountShape,
  snake: mountSnake,
  table: mountTable,
  temperature: mountTemperature,
  time: mountTime,
  window: mountWindow,
};

/**
 * Draw a picture. Its tokens are marked for translating browsers to leave; numbers in its lines are
 * not, which such a browser keeps anyway. In the words they are, because they are links.
 * @param {string} name
 * @param {{ kind: string, first?: number, values?: Record<string, number> }} data
 * @param {{ first?: number, sliders?: Record<string, number> }} begin  where a stop begins, if not
 *   where the picture does
 */
export function drawFigure(name, data, { first = data.first, sliders } = {}) {
  const figure = make("figure", "ouro-picture ouro-" + name);
  const value = JSON.stringify({ ...data, first, values: { ...data.values, ...sliders } });
  KINDS[data.kind](figure, { value });
  return figure;
}
