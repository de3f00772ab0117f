// Small things that every view shares. Text of prompt and model is data: it reaches the page
// through textContent only.
export const make = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};
export const draw = (tag, attributes, content) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  if (content !== undefined) node.textContent = content;
  return node;
};
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
    part
      .split(/\^(?:\(([^)]*)\)|(\S))/)
      .forEach((piece, m) => piece && node.append(m % 3 ? make("sup", "", piece) : piece));
  });
  return node;
};
