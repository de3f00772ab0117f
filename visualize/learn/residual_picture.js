// @ts-check
// p, q and the rest of p after a rejection: three bars for each token.
import { make, percent, quote, visible } from "../kit/dom.js";

/** @type {["draft" | "target" | "kept" | "left", string][]} the bars of a row, with their colours */
const BARS = [
  ["draft", "draft"],
  ["target", "correction"],
  ["kept", "suffix"],
  ["left", "bonus"],
];

/**
 * Return the picture; its caption says which shares are kept and which are drawn anew.
 * @param {{ words: string, rows: { text: string, draft: number, target: number, kept: number,
 *   left: number }[] }} data
 */
export function residual(data) {
  const figure = make("figure", "ouro-residual"),
    table = make("table", "ouro-size-s ouro-digits"),
    head = make("tr");
  for (const name of ["token", "draft model q", "target p", "min(p, q)", "left of p"])
    head.append(make("th", "", name));
  table.append(head);
  for (const row of data.rows) {
    const line = make("tr"),
      token = make("th");
    token.append(quote(visible(row.text)));
    line.append(token);
    for (const [name, look] of BARS) {
      const cell = make("td", "ouro-bar ouro-left"),
        bar = make("i");
      bar.style.width = 100 * row[name] + "%";
      bar.dataset.look = look;
      cell.dataset.part = name;
      cell.append(bar, make("span", "", percent(row[name])));
      line.append(cell);
    }
    table.append(line);
  }
  figure.append(make("figcaption", "", data.words), table); // the key is seen, however low the window
  return figure;
}
