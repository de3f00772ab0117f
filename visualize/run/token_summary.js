// @ts-check
// The parts around the text of a run: tiles, notices, legend, numbers, the meaning of the colours,
// a step in words.
import { counted, fill, make, visible } from "../kit/dom.js";
/** @import { Looks, Token, Step } from "../kit/types" */

/**
 * Draw the legend. Looks that are still to come have their place already: nothing moves while a run
 * plays.
 * @param {HTMLElement} container
 * @param {Looks} looks
 * @param {Map<string, number>} all  the tokens of each look in the whole run
 * @param {Map<string, number>} sofar  the tokens up to the step that is shown
 */
export function drawLegend(container, looks, all, sofar) {
  drawKeys(container, looks, new Set(all.keys()));
  // a source without kept guesses has a 0
  for (const item of /** @type {Iterable<HTMLElement>} */ (container.children)) {
    const key = item.dataset.look,
      count = make("b", "", String(sofar.get(key) || 0));
    count.style.minWidth = String(all.get(key)).length + "ch";
    item.append(count);
  }
}

/**
 * Draw the looks that occur, without their numbers.
 * @param {HTMLElement} container
 * @param {Looks} looks
 * @param {Set<string>} occurring
 */
export function drawKeys(container, looks, occurring) {
  container.replaceChildren();
  for (const [key, look] of looks) {
    if (!occurring.has(key)) continue;
    const item = make("li", "ouro-key");
    item.dataset.look = key;
    const glyph = make("span", "ouro-glyph", look.glyph);
    glyph.setAttribute("aria-hidden", "true");
    item.append(glyph, make("span", "ouro-sample", look.label));
    container.append(item);
  }
}

/**
 * Draw the small mark of rejected guesses.
 * @param {HTMLElement} container
 */
export function drawMark(container) {
  const item = make("li", "ouro-key-mark");
  item.append(make("span", "ouro-mark"), make("span", "", "rejected guesses"));
  container.append(item);
}

/**
 * @param {HTMLElement} container
 * @param {Looks} looks
 */
export function drawMeaning(container, looks) {
  for (const [key, look] of looks) {
    const name = make("dt", "ouro-key"),
      glyph = make("span", "ouro-glyph", look.glyph);
    name.dataset.look = key;
    name.append(glyph, make("span", "ouro-sample", look.label));
    container.append(name, make("dd", "", look.sentence));
  }
}

/**
 * @param {HTMLElement} container
 * @param {{ label: string, value: string, note: string, spread?: string, mark?: string,
 *   doubtful?: boolean }[]} list
 */
export function drawTiles(container, list) {
  container.replaceChildren();
  for (const tile of list) {
    const box = make("div", "ouro-tile");
    box.title = tile.note;
    if (tile.doubtful) box.dataset.doubtful = "";
    box.append(make("dt", "", tile.label), make("dd", "", tile.value));
    if (tile.spread) box.append(make("dd", "ouro-tile-spread", tile.spread));
    if (tile.mark) box.append(make("dd", "ouro-tile-mark", tile.mark));
    container.append(box);
  }
}

/**
 * Draw what a reader must know before believing a run.
 * @param {HTMLElement} container
 * @param {{ words: string, act?: string, label?: string }[]} list
 * @param {(act: string) => void} again  does something about a notice
 */
export function drawNotices(container, list, again) {
  container.replaceChildren();
  for (const notice of list) {
    const box = fill(make("p", "ouro-notice"), notice.words);
    if (notice.act) {
      const button = make("button", "ouro-toggle ouro-again", notice.label);
      button.type = "button";
      button.addEventListener("click", () => again(notice.act));
      box.append(" ", button);
    }
    container.append(box);
  }
}

/**
 * @param {HTMLElement} container
 * @param {{ title: string, lines: string[], head?: string[], rows?: any[][] }[]} sections
 */
export function drawNumbers(container, sections) {
  container.replaceChildren();
  for (const section of sections) {
    const box = make("section", "ouro-section");
    box.append(make("h2", "", section.title));
    for (const line of section.lines) box.append(fill(make("p"), line));
    if (section.rows) box.append(table(section));
    container.append(box);
  }
}

/** @param {{ head?: string[], rows?: any[][] }} section */
function table({ head, rows }) {
  const body = make("table"),
    first = make("tr");
  for (const name of head) first.append(make("th", "", name));
  body.append(first);
  for (const row of rows) {
    const line = make("tr");
    for (const value of row) line.append(make("td", "", String(value)));
    body.append(line);
  }
  return body;
}

/**
 * Return a step in a sentence.
 * @param {Step} step
 * @param {boolean} judged  whether the moment is after the target's verdict; before it, the result
 *   is secret
 */
export function describeStep(step, judged = true) {
  const accepted = step.tokens.filter((token) => token.node !== undefined).length;
  const nodes = step.nodes.length,
    kept = judged ? `kept ${accepted}` : "not verified yet",
    proposals = nodes ? `guessed ${nodes}, ${kept}` : "no guess";
  const own = step.tokens.find((token) => token.node === undefined);
  const read = counted(step.width, "token"),
    passes = step.passes ? counted(step.passes, "draft pass", "draft passes") : "no draft pass";
  const saved = step.saved ? `, ${counted(step.saved, "token")} fewer to draft by merging` : "";
  const result = own && judged ? "; " + added(own) : "";
  return (
    `Step ${step.index + 1}: ${proposals}${result}. The target's pass reads ${read}; ` +
    `${passes}${saved}.`
  );
}

/**
 * Return the last token of a step, which nobody proposed, in words.
 * @param {Token} token
 */
function added({ source, kind, text }) {
  const quoted = `‘\u2068${visible(text)}\u2069’`;
  if (source === "draft") return `the draft model writes ${quoted}`;
  return `the target adds ${quoted}` + (kind ? `, a ${kind}` : "");
}
