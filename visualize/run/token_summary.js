// @ts-check
// The parts around the text of a run: tiles, notices, legend, numbers, the meaning of the colours,
// a step in words.
import { counted, fill, make, tell, visible } from "../kit/dom.js";
import { REJECTED } from "./token_text.js";
/** @import { Terms } from "./terms.js" */
/** @import { Looks, Token, Step } from "../kit/types" */

/** The looks that are always named; the others are one group until they are asked for. */
const MAIN = ["draft", "correction", "suffix", "bonus", "target"];
const OTHERS = "others";
const GROUP = {
  glyph: "✚",
  label: "other sources",
  sentence: "Copies, phrases and other guesses that need no draft model, confirmed by the target.",
};

/** @param {string} look */
export const isOther = (look) => !MAIN.includes(look) && look !== REJECTED;

/**
 * Return whether a look belongs to another one, or to the group.
 * @param {string} look
 * @param {string} other
 */
const belongs = (look, other) => look === other || (other === OTHERS && isOther(look));

/**
 * The legend of a run: the number of tokens by writer, in the order in which the run has them. An
 * entry isolates its tokens, and explains its colour.
 */
export class Legend {
  /**
   * @param {HTMLElement} root  the view; `data-only` has the look that is isolated
   * @param {Looks} looks
   * @param {(faded: (look: string) => boolean) => void} isolated  called with a test for looks that
   *   are faded
   * @param {(button: HTMLElement, words: string) => void} explain
   */
  constructor(root, looks, isolated, explain) {
    this.root = root;
    this.list = root.querySelector(".ouro-legend");
    this.looks = looks;
    this.isolated = isolated;
    this.explain = explain;
    this.chosen = "";
    this.grouped = !root.closest(".ouro-learn");
    /** @type {Map<string, { item: HTMLElement, count: HTMLElement }>} */
    this.entries = new Map();
    this.more = make("button", "ouro-legend-more");
    this.more.type = "button";
    this.more.addEventListener("click", () => {
      this.grouped = !this.grouped;
      tell("ouro:grouped", { grouped: this.grouped });
      this.clear();
      this.draw();
    });
    this.clear();
  }

  clear() {
    this.entries.clear();
    this.list.replaceChildren();
    this.only("");
    this.chosen = "";
  }

  /** @param {string} look */
  only(look) {
    if (look) this.root.dataset.only = look;
    else delete this.root.dataset.only;
    this.isolated((other) => look !== "" && !belongs(other, look));
  }

  /**
   * @param {Set<string>} order  the looks of the run and rejected guesses, as they come
   * @param {Map<string, number>} all  the tokens of each look in the whole run
   * @param {Map<string, number>} sofar  the tokens, and the rejected guesses, up to the step that is
   *   shown
   */
  show(order, all, sofar) {
    Object.assign(this, { order, all, sofar });
    this.draw();
  }

  draw() {
    const { order = [], all = new Map(), sofar = new Map() } = /** @type {any} */ (this);
    const others = [...order].filter(isOther);
    const grouped = this.grouped && others.length > 1;
    this.root.classList.toggle("ouro-grouped", grouped);
    const shown = [
      ...new Set([...order].map((look) => (grouped && isOther(look) ? OTHERS : look))),
    ];
    if ([...this.entries.keys()].join() !== shown.join()) this.build(shown);
    for (const [key, { item, count }] of this.entries) {
      const looks = [...order].filter((look) => belongs(look, key));
      const number = looks.reduce((sum, look) => sum + (sofar.get(look) || 0), 0),
        whole = looks.reduce((sum, look) => sum + (all.get(look) || number), 0);
      count.textContent = String(number);
      count.style.minWidth = String(whole).length + "ch";
      item.toggleAttribute("data-later", !number); // its place is there: nothing moves
    }
    this.more.hidden = others.length < 2 || this.root.closest(".ouro-learn") !== null;
    this.more.textContent = grouped ? `+${others.length} more` : "fewer";
  }

  /**
   * @param {string[]} keys
   */
  build(keys) {
    this.entries.clear();
    const items = keys.map((key) => {
      if (key === REJECTED) return this.mark();
      const look = this.looks.get(key) || GROUP,
        { item, button } = entry(key, look.glyph, look.label),
        count = make("b");
      button.append(count);
      button.title = look.sentence;
      button.addEventListener("click", () => {
        this.choose(key);
        if (this.chosen) this.explain(button, look.sentence);
      });
      button.addEventListener("pointermove", ({ movementX, movementY }) => {
        if (movementX || movementY) this.only(key); // an entry that moves under a pointer isolates nothing
      });
      button.addEventListener("pointerleave", () => this.only(this.chosen));
      this.entries.set(key, { item, count });
      return item;
    });
    items[keys.findLastIndex(isOther)]?.append(this.more);
    this.list.replaceChildren(...items);
  }

  /** Return the entry of rejected guesses, which has the small mark of them. */
  mark() {
    const item = make("li", "ouro-key-mark"),
      count = make("b");
    item.append(make("span", "ouro-mark"), make("span", "", "rejected guesses"), count);
    this.entries.set(REJECTED, { item, count });
    return item;
  }

  /** @param {string} key */
  choose(key) {
    this.chosen = this.chosen === key ? "" : key;
    this.only(this.chosen);
    for (const [look, { item }] of this.entries)
      item.querySelector(".ouro-only")?.setAttribute("aria-pressed", String(look === this.chosen));
  }
}

/**
 * Return an entry that can be chosen.
 * @param {string} key
 * @param {string} glyph
 * @param {string} label
 */
function entry(key, glyph, label) {
  const item = make("li", "ouro-key"),
    button = make("button", "ouro-only"),
    sign = make("span", "ouro-glyph", glyph);
  item.dataset.look = key;
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  sign.setAttribute("aria-hidden", "true");
  button.append(sign, make("span", "ouro-sample", label));
  item.append(button);
  return { item, button };
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
 * Draw what a run was asked for: its prompt in one line, the conditions of its text, and the title
 * of its curves.
 * @param {HTMLElement} root
 * @param {{ prompt: string, curves: string, conditions: { words: string, changed: boolean }[] }}
 *   caption
 * @param {Terms} terms
 */
export function drawCaption(root, { prompt, curves, conditions }, terms) {
  terms.introduce(fill(root.querySelector(".ouro-curves-title"), curves));
  const asked = root.querySelector(".ouro-asked");
  asked.textContent = prompt;
  asked.title = prompt;
  root.querySelector(".ouro-conditions").replaceChildren(
    ...conditions.map(({ words, changed }) => {
      const item = make("li", "", words);
      item.toggleAttribute("data-changed", changed);
      return terms.introduce(item);
    }),
  );
}

/**
 * @param {HTMLElement} container
 * @param {{ label: string, value: string, note: string, spread?: string, mark?: string,
 *   doubtful?: boolean }[]} list
 */
export function drawTiles(container, list) {
  container.replaceChildren();
  for (const tile of list) {
    const box = make("div", "ouro-tile ouro-wrap");
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
 * @param {HTMLElement} beside  the place beside the sentence, which has room for some notices
 * @param {{ words: string, note?: string, beside?: boolean, quiet?: boolean, act?: string,
 *   label?: string }[]} list
 * @param {(act: string) => void} again  does something about a notice
 */
export function drawNotices(container, beside, list, again) {
  container.replaceChildren();
  beside.replaceChildren();
  for (const notice of list) {
    const look = notice.quiet ? "ouro-remark" : "ouro-notice ouro-callout ouro-size-m";
    const box = fill(make("p", look), notice.words);
    if (notice.note) box.title = notice.note;
    if (notice.act) {
      const button = make("button", "ouro-toggle ouro-again", notice.label);
      button.type = "button";
      button.addEventListener("click", () => again(notice.act));
      box.append(" ", button);
    }
    (notice.beside ? beside : container).append(box);
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
  const rows = counted(step.width, "row"),
    passes = step.passes ? counted(step.passes, "draft pass", "draft passes") : "no draft pass";
  const saved = step.saved ? `, ${counted(step.saved, "token")} fewer to draft by merging` : "";
  const result = own && judged ? "; " + added(own) : "";
  return (
    `Step ${step.index + 1}: ${proposals}${result}. The target's pass has ${rows}; ` +
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
