// @ts-check
// Two models' probabilities of the likeliest next tokens at a temperature that a reader sets, and
// their common part.
import { make, percent, quote, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

const COLDEST = 0.02; // below it a power of a probability is no number any more
const NOTE = "A recorded position, with its likeliest tokens; rarer ones are left out.";
const SHOWN = 6; // tokens with a row; all are counted

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ rows: [string, number, number][] }}  token, p and q at temperature 1 */
  const { rows } = JSON.parse(value);
  const label = make("label", "ouro-range"),
    input = make("input"),
    shown = make("output"),
    table = make("table"),
    said = make("p", "ouro-picture-said");
  Object.assign(input, { type: "range", min: 0, max: 2, step: 0.05, value: 1 });
  label.append(make("span", "", "T: temperature"), input, shown);
  said.setAttribute("role", "status");
  const head = make("tr");
  head.append(
    ...["token", "target p", "draft model q", "min(p, q)"].map((name) => make("th", "", name)),
  );

  /**
   * Return probabilities at a temperature: each score is divided by it.
   * @param {number[]} chances  at temperature 1
   * @param {number} temperature
   */
  function heated(chances, temperature) {
    const most = Math.max(...chances),
      powers = chances.map((one) => (one / most) ** (1 / Math.max(COLDEST, temperature))),
      sum = powers.reduce((a, b) => a + b);
    return powers.map((one) => one / sum);
  }

  function paint() {
    const temperature = Number(input.value),
      columns = [1, 2].map((n) =>
        heated(
          rows.map((row) => Number(row[n])),
          temperature,
        ),
      ),
      both = rows.map((_, n) => Math.min(columns[0][n], columns[1][n]));
    shown.textContent = temperature.toFixed(2);
    table.replaceChildren(
      head,
      ...rows.slice(0, SHOWN).map(([text], n) => {
        const line = make("tr"),
          token = make("th");
        token.append(quote(visible(text)));
        line.append(token);
        for (const [share, look] of [
          [columns[0][n], "correction"],
          [columns[1][n], "draft"],
          [both[n], "suffix"],
        ]) {
          const cell = make("td", "ouro-bar ouro-left"),
            bar = make("i");
          bar.style.width = 100 * Number(share) + "%";
          bar.dataset.look = String(look);
          cell.append(bar, make("span", "", percent(Number(share))));
          line.append(cell);
        }
        return line;
      }),
    );
    const accepted = both.reduce((a, b) => a + b);
    said.textContent = `By min(1, p/q), a guess is accepted here with the chance ${percent(accepted)}.`;
  }

  input.addEventListener("input", paint);
  element.classList.add("ouro-residual");
  element.append(label, said, table, make("figcaption", "", NOTE));
  paint();
}
