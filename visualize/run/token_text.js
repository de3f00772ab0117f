// The text of one run, each token in the look of who wrote it, as it stood at any moment.
// A moment is (step, phase): phase 1..depth shows so many proposed tokens of the step, then comes
// the verdict, then the commit.
import { foreign, inline, make, mirrored, numberGoesOn } from "../kit/dom.js";

export class TokenText {
  constructor(container) {
    this.container = foreign(container);
    this.clear();
  }

  clear() {
    this.steps = [];
    this.spans = [];
    this.ends = []; // how many tokens there are after each step
    this.tokens = 0;
    this.counts = new Map();
    this.marked = false; // whether a guess was rejected
    this.shown = 0; // steps that are not hidden
    this.current = -1;
    this.written = ""; // the last text that is not empty
    this.mirrored = false; // whether letters run from right to left
    this.parts = null; // where it differs from plain decoding's text: {index, mark, words}
    this.container.replaceChildren();
  }

  // How far below the beginning of the text a line of it lies, behind the underlines of the line
  // before.
  place({ top, height }) {
    const { container } = this,
      style = getComputedStyle(container),
      gap = parseFloat(style.lineHeight) - height;
    const under = Math.max(0, parseFloat(style.getPropertyValue("--ouro-under")) - gap);
    return top - container.getBoundingClientRect().top + container.scrollTop + under;
  }

  // Of a height what whole lines make: so that the first line that is seen is not cut.
  wholeLines(height) {
    const line = parseFloat(getComputedStyle(this.container).lineHeight);
    return Math.floor(height / line) * line;
  }

  // Where the text is scrolled to: this line is the last that is seen, and the first is whole.
  bottom(line) {
    return this.place(line) - this.wholeLines(this.container.clientHeight - line.height);
  }

  toBottom(line) {
    this.container.scrollTop = this.bottom(line);
  }

  // apart: whether it stands before the text by itself, with its own direction.
  prompt(text, apart) {
    const span = make("span", "ouro-prompt", text);
    if (apart) foreign(span);
    else this.reads(text);
    span.dataset.source = "context";
    this.container.append(span);
  }

  reads(text) {
    if (text) this.written = text;
    this.mirrored ||= mirrored(text);
  }

  // What was proposed along the line that is shown: the accepted path, and behind it the first
  // branch that was rejected.
  static line(step) {
    const path = step.tokens.filter((token) => token.node !== undefined).map((token) => token.node);
    const rejected = [];
    let above = path.length ? path[path.length - 1] : 0;
    for (;;) {
      const next = step.nodes.findIndex((node) => node.parent === above);
      if (next < 0) break;
      above = next + 1;
      rejected.push(above);
    }
    return { path, rejected };
  }

  static depth(step) {
    const line = TokenText.line(step);
    return line.path.length + line.rejected.length;
  }

  append(steps) {
    const fragment = document.createDocumentFragment();
    for (const step of steps) {
      const span = make("span", "ouro-step");
      span.dataset.step = String(step.index);
      const { rejected } = TokenText.line(step);
      for (const { look } of step.nodes) if (!this.counts.has(look)) this.counts.set(look, 0);
      const own = step.tokens.filter((token) => token.node === undefined);
      for (const token of step.tokens)
        if (token.node !== undefined) span.append(this.token(token, step));
      if (rejected.length) span.append(this.guess(rejected, step, own[0]));
      this.marked ||= rejected.length > 0;
      for (const token of own) span.append(this.token(token, step));
      this.steps.push(step);
      this.spans.push(span);
      this.ends.push(this.tokens);
      fragment.append(span);
    }
    this.container.append(fragment);
    this.shown = this.steps.length;
  }

  token(token, step) {
    const proposed = token.node !== undefined;
    const facts = proposed ? { ...step.nodes[token.node - 1], ...token } : token;
    const span = make("span", "ouro-token", token.text);
    span.dataset.index = String(this.tokens);
    if (proposed) span.dataset.node = String(token.node);
    // its look is painted by run.css: background and underline, in the --tone of palette.py
    this.describe(span, facts, step);
    if (facts.kind) span.dataset.kind = facts.kind;
    span.tabIndex = -1;
    if (this.within(token)) span.dataset.within = "";
    this.reads(token.text);
    this.tokens += 1;
    this.counts.set(facts.look, (this.counts.get(facts.look) || 0) + 1);
    return span;
  }

  // How many tokens of each look there are after so many steps.
  countsTo(steps) {
    if (steps >= this.steps.length) return this.counts;
    const counts = new Map();
    for (const { tokens, nodes } of this.steps.slice(0, steps))
      for (const { node, look } of tokens) {
        const written = node === undefined ? look : nodes[node - 1].look;
        counts.set(written, (counts.get(written) || 0) + 1);
      }
    return counts;
  }

  // Whether this token begins inside a number that must not be torn apart.
  within(token) {
    return Boolean(this.mirrored && token && numberGoesOn(this.written, token.text));
  }

  // The rejected tokens before a step's own one: a text by itself inside the text that was kept,
  // which has its letters and digits as if nothing stood there.
  guess(numbers, step, own) {
    const node = make("bdi", "ouro-guess");
    if (this.within(own)) node.dataset.within = "";
    node.append(...numbers.map((number) => this.rejected(number, step)));
    return node;
  }

  // It stays in its line, so that the text that was kept has its own lines.
  rejected(number, step) {
    const facts = step.nodes[number - 1];
    const node = make("del", "ouro-rejected");
    node.append(make("span", "", inline(facts.text)));
    node.dataset.text = facts.text;
    node.tabIndex = -1;
    node.dataset.node = String(number);
    this.describe(node, facts, step);
    return node;
  }

  // Mark the first token that differs from plain decoding's; its card says why.
  markParting(parts) {
    this.parts = parts;
    const node = this.container.querySelector(`.ouro-token[data-index="${parts.index}"]`);
    if (node) node.dataset.parts = parts.mark;
  }

  describe(node, facts, step) {
    const data = {
      step: step.index,
      source: facts.source,
      look: facts.look,
      id: facts.id,
      learned: facts.learned,
    };
    if (facts.learned) data.since = facts.step;
    data.position = facts.position;
    for (const [name, value] of Object.entries(data))
      if (value !== undefined) node.dataset[name] = String(value);
  }

  // Show the text as it stood; only what changed since the last call is touched.
  show(step, phase) {
    if (this.current >= 0 && this.current !== step && this.spans[this.current])
      this.settle(this.current);
    const upto = Math.min(step + 1, this.steps.length);
    for (let n = this.shown; n < upto; n++) delete this.spans[n].dataset.later;
    for (let n = upto; n < this.shown; n++) this.spans[n].dataset.later = "";
    this.shown = upto;
    this.current = step;
    const span = this.spans[step];
    if (!span) return;
    const depth = TokenText.depth(this.steps[step]);
    const stage = phase > depth + 1 ? "commit" : phase > depth ? "verify" : "draft";
    span.dataset.stage = stage;
    let number = 0;
    for (const child of TokenText.written(span)) {
      const proposed = child.dataset.node !== undefined;
      if (proposed) number += 1;
      child.toggleAttribute("data-later", proposed ? number > phase : stage !== "commit");
    }
  }

  // What a step shows, in its order.
  static written(span) {
    return span.querySelectorAll(".ouro-token, .ouro-rejected");
  }

  settle(step) {
    const span = this.spans[step];
    delete span.dataset.stage;
    for (const child of TokenText.written(span)) child.removeAttribute("data-later");
  }

  // The whole text, as it is while it is being written.
  showAll() {
    if (this.current >= 0 && this.spans[this.current]) this.settle(this.current);
    for (let n = this.shown; n < this.steps.length; n++) delete this.spans[n].dataset.later;
    this.shown = this.steps.length;
    this.current = -1;
  }
}
