// Small things that every view shares. Text of prompt and model is data: it reaches the page
// through textContent only.
export const make = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};
// A text of prompt or model among the page's own words: it has its own direction, and a browser
// that translates the page leaves it as it is.
export const quote = (text, className) => {
  const node = make("bdi", className, text);
  node.translate = false;
  return node;
};
// A quoted text ends where behind its mark a word of the sentence may follow; `messages.isolated`
// puts characters around one that runs from right to left.
const QUOTED = /([‘“]|(?:^|[\s(])')(\u2068[^\u2069]*\u2069|[^]*?)([’”'](?=[\s.,;:)]|$))/;
const parts = (sentence) =>
  sentence.split(QUOTED).map((part, n) => {
    return n % 4 === 2 ? quote(part.replace(/^\u2068|\u2069$/g, "")) : part;
  });
// Puts a sentence into a node, each text that it quotes by itself.
export const fill = (node, sentence) => {
  node.replaceChildren(...parts(sentence));
  return node;
};
export const draw = (tag, attributes, content) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  if (content !== undefined) node.textContent = content;
  return node;
};
// Makes a node one for texts of prompt and model: they have their own direction, and are not
// translated.
export const foreign = (node) => {
  node.dir = "auto";
  node.translate = false;
  return node;
};
// Whether a text has letters that run from right to left, or digits of their scripts.
const MIRRORED = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
export const mirrored = (text) => MIRRORED.test(text);
// Whether a number goes on from one text to the next. Its digits run from left to right, also among
// letters that do not: there nothing may stand between them that has a place of its own.
const BEFORE = /\p{Nd}[.,:/٫٬-]?$/u,
  BEHIND = /^(?:[.,:/٫٬-]?\p{Nd}|[%٪])/u;
export const numberGoesOn = (before, behind) => BEFORE.test(before) && BEHIND.test(behind);
// A text in one line: breaks and tabs become signs, also what some files have before a break.
export const inline = (text) =>
  text
    .replace(/\r/g, "\\r")
    .replace(/[\n\v\f\u0085\u2028\u2029]/g, "↵")
    .replace(/\t/g, "⇥");
export const visible = (text) => (text === "" ? "∅" : inline(text).replace(/^ | $/g, "␣"));
export const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
// Listens to the page around a view as long as the view is in it: another app may take it out, and
// mount another one.
export const listening = (root) => {
  const life = new AbortController();
  return (target, name, act, capture = false) =>
    target.addEventListener(name, (event) => (root.isConnected ? act(event) : life.abort()), {
      capture,
      signal: life.signal,
    });
};
// On a narrow page the result lies below the fold: show it to who has just asked for it.
export const bring = (root) => {
  if (root.getBoundingClientRect().top < innerHeight * 0.4) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
};
// "1 token", "2 tokens"; a noun with another plural is given both.
export const counted = (n, noun, plural = noun + "s") => `${n} ${n === 1 ? noun : plural}`;
// A tenth of a percent is told where it matters: of what is unlikely, and of what is nearly sure.
// none: what is said of 0, which a rounded value is, too.
export const percent = (value, none = "0") =>
  value === 0
    ? none
    : value < 0.001
      ? "<0.1%"
      : (100 * value).toFixed(value < 0.1 || (value > 0.99 && value < 1) ? 1 : 0) + "%";
// A paragraph in which *words* stand out, and what follows ^, in brackets or a letter, stands high;
// whatever else it holds is text.
export const paragraph = (text, className) => {
  const node = make("p", className);
  text.split("*").forEach((part, n) => {
    if (n % 2) return node.append(make("strong", "", part));
    part.split(/\^(?:\(([^)]*)\)|(\S))/).forEach((piece, m) => {
      if (piece) node.append(...(m % 3 ? [make("sup", "", piece)] : parts(piece)));
    });
  });
  return node;
};
