// @ts-check
// A recorded lookahead window, pass by pass: the model's answers below the columns become the
// window's next row.
import { make, visible } from "../kit/dom.js";
import { stepper } from "../kit/stepper.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * @type {{ columns: number, gram: number, first: number, passes: { levels: string[][], whole: number[],
   *   said: [string, boolean][] }[] }}  said: each answer, and whether it follows in the text
   */
  const { columns, gram, passes, first } = JSON.parse(value);
  const table = make("table", "ouro-window-table ouro-size-s ouro-mono"),
    said = make("p", "ouro-picture-said"),
    scroll = make("div", "ouro-scroll");
  said.setAttribute("role", "status");
  said.dataset.part = "result";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "The window");
  scroll.append(table);
  const steps = stepper("Pass", (at) => draw(at), 1);

  /**
   * @param {string} name
   * @param {HTMLElement[]} cells
   */
  function row(name, cells) {
    const line = make("tr");
    line.append(make("th", "", name), ...cells);
    return line;
  }

  /** @param {number} at */
  function draw(at) {
    const { levels, said: answers, whole } = passes[at],
      wide = Math.max(...levels.map((level) => level.length));
    /**
     * @param {string | undefined} text
     * @param {string} look
     * @param {number} n
     */
    const cell = (text, look, n) => {
      const made = make("td", "", text === undefined ? "" : visible(text));
      made.translate = false;
      if (text !== undefined) made.dataset.look = look;
      if (whole.includes(n)) made.dataset.whole = "";
      return made;
    };
    const across = Array.from({ length: wide }, (_, n) => n),
      gap = wide - answers.length; // while the window fills, the first answer is dropped
    table.replaceChildren(
      ...levels.map((level, l) =>
        row(
          `level ${l + 1}`,
          across.map((n) => cell(level[n], l || n ? "window" : "root", n)),
        ),
      ),
      row(
        "answers",
        across.map((n) =>
          cell((answers[n - gap] || [])[0], (answers[n - gap] || [])[1] ? "fits" : "answer", n),
        ),
      ),
    );
    const rows = levels.reduce((sum, level) => sum + level.length, 0) - 1,
      full = levels.length === gram - 1;
    const count = levels.map((level, l) => level.length - (l ? 0 : 1)).join(" + ");
    said.textContent =
      `Pass ${at + 1}: ${count === String(rows) ? "" : count + " = "}${rows} rows for the window` +
      (full
        ? `, that is ${columns} · (${gram} − 1) − 1. `
        : `; it fills, ${levels.length} of ${gram - 1} levels. `) +
      (whole.length
        ? `${whole.length} of ${columns} columns ${whole.length === 1 ? "occurs" : "occur"} ` +
          `in the final text. `
        : full
          ? "No column occurs in the final text. "
          : "") +
      `${answers.filter((answer) => answer[1]).length} of the answers follow the same token ` +
      `in that text.`;
  }

  const key = make(
    "figcaption",
    "",
    "Blue: the last token of the text. Dotted: guesses. Last line: what the model answers; " +
      "green where the text that was written has the same two tokens in a row. " +
      "Framed: a whole n-gram of that text.",
  );
  element.append(steps.element, scroll, said, key);
  steps.range(passes.length - 1, first);
}
