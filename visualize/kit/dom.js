// @ts-check
// Small helpers of all views. Text of prompt and model is data: it reaches the page through
// textContent only.
/** @import { Listen } from "./types" */

/**
 * Make an element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} className  or ""
 * @param {string} content
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export const make = (tag, className = "", content = undefined) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};
/**
 * Make an element for a text of prompt or model inside a sentence of the page: it has its own
 * direction, and a browser that translates the page leaves it unchanged.
 * @param {string} text
 * @param {string} className
 */
export const quote = (text, className = "") => {
  const node = make("bdi", className, text);
  node.translate = false;
  return node;
};
/**
 * A quoted text: a mark opens it, and a word of the sentence may follow the mark that closes it.
 * `messages.isolated` puts characters around a text that runs from right to left.
 */
const QUOTED = /([‘“]|(?:^|[\s(])')(\u2068[^\u2069]*\u2069|[^]*?)([’”'](?=[\s.,;:)]|$))/;
/**
 * @param {string} sentence
 * @returns {(string | HTMLElement)[]}
 */
const parts = (sentence) =>
  sentence.split(QUOTED).map((part, n) => {
    return n % 4 === 2 ? quote(part.replace(/^\u2068|\u2069$/g, "")) : part;
  });
/**
 * Put a sentence into an element, with an element for each quoted text.
 * @template {HTMLElement} Node
 * @param {Node} node
 * @param {string} sentence
 */
export const fill = (node, sentence) => {
  node.replaceChildren(...parts(sentence));
  return node;
};
/**
 * Make an element of a picture.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {string} content
 * @returns {any}
 */
export const draw = (tag, attributes, content = undefined) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  if (content !== undefined) node.textContent = content;
  return node;
};
/**
 * Mark an element as text of prompt or model: it has its own direction, and is not translated.
 * @template {HTMLElement} Node
 * @param {Node} node
 */
export const foreign = (node) => {
  node.dir = "auto";
  node.translate = false;
  return node;
};
/** Letters that run from right to left, and digits of their scripts. */
const MIRRORED = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/** @param {string} text */
export const mirrored = (text) => MIRRORED.test(text);
/**
 * The end of a text and the beginning of the next text, between which a number continues. Its
 * digits run from left to right, also among letters that do not: no isolated text may stand there.
 */
const BEFORE = /\p{Nd}[.,:/٫٬-]?$/u,
  BEHIND = /^(?:[.,:/٫٬-]?\p{Nd}|[%٪])/u;
/**
 * @param {string} before
 * @param {string} behind
 */
export const numberGoesOn = (before, behind) => BEFORE.test(before) && BEHIND.test(behind);
/**
 * Return a text in one line: breaks and tabs become signs, also a \r before a break.
 * @param {string} text
 */
export const inline = (text) =>
  text
    .replace(/\r/g, "\\r")
    .replace(/[\n\v\f\u0085\u2028\u2029]/g, "↵")
    .replace(/\t/g, "⇥");
/** The sign of a token that is a part of a character, as in run.css. */
const PIECE = "◌";
/** @param {string} text */
export const visible = (text) =>
  /^\ufffd*$/.test(text) ? PIECE : inline(text).replace(/^ | $/g, "␣");
/**
 * Send an event to the other views of the page; see types.d.ts.
 * @param {keyof DocumentEventMap} name
 * @param {object} detail
 */
export const tell = (name, detail = undefined) =>
  document.dispatchEvent(new CustomEvent(name, { detail }));
/**
 * Return a function that listens to the page around a view as long as the view is in the page:
 * another app may remove it and mount another one.
 * @param {HTMLElement} root
 * @returns {Listen}
 */
export const listening = (root) => {
  const life = new AbortController();
  return (target, name, act, capture = false) =>
    target.addEventListener(name, (event) => (root.isConnected ? act(event) : life.abort()), {
      capture,
      signal: life.signal,
    });
};
/**
 * Show a result to a visitor who has just asked for it: on a narrow page it is below the fold.
 * @param {HTMLElement} root
 */
export const bring = (root) => {
  if (root.getBoundingClientRect().top < innerHeight * 0.4) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
};
/**
 * Say below a button why a click on it does nothing, until the run under way ends or the next click.
 * @param {Element} button
 * @param {string} words
 */
export const refuse = (button, words) => {
  for (const said of document.querySelectorAll(".ouro-refused")) said.remove();
  const note = fill(make("p", "ouro-note ouro-refused"), words);
  note.setAttribute("role", "alert");
  button.after(note);
  for (const end of ["ouro:ended", "pointerdown"])
    document.addEventListener(end, () => note.remove(), { once: true });
};
/**
 * Return "1 token", "2 tokens".
 * @param {number} n
 * @param {string} noun
 * @param {string} plural
 */
export const counted = (n, noun, plural = noun + "s") => `${n} ${n === 1 ? noun : plural}`;
/**
 * Return a percentage, with a tenth for unlikely and nearly sure values.
 * @param {number} value
 * @param {string} none  the text for 0, which a small value may be rounded to
 */
export const percent = (value, none = "0") =>
  value === 0
    ? none
    : value < 0.001
      ? "<0.1%"
      : (100 * value).toFixed(value < 0.1 || (value > 0.99 && value < 1) ? 1 : 0) + "%";
/**
 * Make a paragraph in which *words* are strong, and a letter or brackets after ^ are raised. All
 * else is text.
 * @param {string} text
 * @param {string} className
 */
export const paragraph = (text, className = "") => {
  const node = make("p", className);
  text.split("*").forEach((part, n) => {
    if (n % 2) {
      node.append(make("strong", "", part));
      return;
    }
    part.split(/\^(?:\(([^)]*)\)|(\S))/).forEach((piece, m) => {
      if (piece) node.append(...(m % 3 ? [make("sup", "", piece)] : parts(piece)));
    });
  });
  return node;
};
