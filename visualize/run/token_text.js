// @ts-check
// The text of one run, each token in the look of its writer, as it was at any moment. A moment is
// (step, phase): phases 1 to depth show as many proposed tokens of the step; then follow the
// verdict and the commit.
import { foreign, inline, make, mirrored, numberGoesOn } from "../kit/dom.js";
/** @import { Token, Step, Parting } from "../kit/types" */

/** Rejected guesses in the legend, beside the looks of tokens. */
export const REJECTED = "rejected";

/**
 * Return the number of tokens of each look that a step wrote.
 * @param {Pick<Step, "tokens" | "nodes">} step
 */
export function looksOf({ tokens, nodes }) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { node, look } of tokens) {
    const writer = node === undefined ? look : nodes[node - 1].look;
    counts.set(writer, (counts.get(writer) || 0) + 1);
  }
  return counts;
}

export class TokenText {
  /** @param {HTMLElement} container */
  constructor(container) {
    this.container = foreign(container);
    this.clear();
  }

  clear() {
    /** @type {Step[]} */
    this.steps = [];
    /** @type {HTMLElement[]} */
    this.spans = [];
    /** @type {number[]} the number of tokens after each step */
    this.ends = [];
    this.tokens = 0;
    /** @type {Map<string, number>} */
    this.counts = new Map();
    /** @type {Set<string>} the looks, and REJECTED, in the order in which the run has them */
    this.order = new Set();
    this.shown = 0; // steps that are not hidden
    /** @type {number} */
    this.current = -1;
    this.written = ""; // the last text that is not empty
    this.mirrored = false; // whether letters run from right to left
    /** @type {Parting | null} where it differs from plain decoding's text */
    this.parts = null;
    this.container.replaceChildren();
  }

  /**
   * Return how far a line is below the beginning of the text, without the underlines of the line
   * before.
   * @param {DOMRect} line
   */
  place({ top, height }) {
    const { container } = this,
      style = getComputedStyle(container),
      gap = parseFloat(style.lineHeight) - height;
    const under = Math.max(0, parseFloat(style.getPropertyValue("--ouro-under")) - gap);
    return top - container.getBoundingClientRect().top + container.scrollTop + under;
  }

  /**
   * Return the part of a height that whole lines fill: the first visible line is not cut.
   * @param {number} height
   */
  wholeLines(height) {
    const line = parseFloat(getComputedStyle(this.container).lineHeight);
    return Math.floor(height / line) * line;
  }

  /**
   * Return the scroll position at which a line is the last visible one, and the first is whole.
   * @param {DOMRect} line
   */
  bottom(line) {
    return this.place(line) - this.wholeLines(this.container.clientHeight - line.height);
  }

  /** @param {DOMRect} line */
  toBottom(line) {
    this.container.scrollTop = this.bottom(line);
  }

  /**
   * @param {string} text
   * @param {boolean} apart  whether the prompt is separate from the text, with its own direction
   */
  prompt(text, apart) {
    const span = make("span", "ouro-prompt", text);
    if (apart) foreign(span);
    else this.reads(text);
    span.dataset.source = "context";
    span.toggleAttribute("data-folded", apart); // it stands above the text, in one line
    this.container.append(span);
  }

  /** @param {string} text */
  reads(text) {
    if (text) this.written = text;
    this.mirrored ||= mirrored(text);
  }

  /**
   * Return the proposal along the visible line: the accepted path, and behind it the first rejected
   * branch.
   * @param {Step} step
   */
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

  /** @param {Step} step */
  static depth(step) {
    const line = TokenText.line(step);
    return line.path.length + line.rejected.length;
  }

  /** @param {Step[]} steps */
  append(steps) {
    const fragment = document.createDocumentFragment();
    for (const step of steps) {
      const span = make("span", "ouro-step");
      span.dataset.step = String(step.index);
      const { rejected } = TokenText.line(step);
      const own = step.tokens.filter((token) => token.node === undefined);
      for (const token of step.tokens)
        if (token.node !== undefined) span.append(this.token(token, step));
      if (rejected.length) span.append(this.guess(rejected, step, own[0]));
      if (step.nodes.length > step.tokens.length - own.length) this.order.add(REJECTED);
      for (const token of own) span.append(this.token(token, step));
      this.steps.push(step);
      this.spans.push(span);
      this.ends.push(this.tokens);
      fragment.append(span);
    }
    this.container.append(fragment);
    this.shown = this.steps.length;
  }

  /**
   * @param {Token} token
   * @param {Step} step
   */
  token(token, step) {
    const proposed = token.node !== undefined;
    const facts = proposed ? { ...step.nodes[token.node - 1], ...token } : token;
    const span = make("span", "ouro-token", token.text);
    span.toggleAttribute("data-piece", !token.text); // of a character that a later token completes
    span.dataset.index = String(this.tokens);
    if (proposed) span.dataset.node = String(token.node);
    // run.css paints its look: background and underline, in the --tone of palette.py
    this.describe(span, facts, step);
    if (facts.kind) span.dataset.kind = facts.kind;
    span.tabIndex = -1;
    if (this.within(token)) span.dataset.within = "";
    this.reads(token.text);
    this.tokens += 1;
    this.counts.set(facts.look, (this.counts.get(facts.look) || 0) + 1);
    this.order.add(facts.look);
    return span;
  }

  /**
   * Return the number of tokens of each look after a number of steps; and of the next step, if it
   * is judged, the accepted ones.
   * @param {number} steps
   * @param {boolean} judged
   */
  countsTo(steps, judged) {
    if (steps >= this.steps.length) return this.counts;
    const counts = new Map();
    const { tokens, nodes } = this.steps[steps];
    const accepted = tokens.filter(({ node }) => judged && node !== undefined);
    for (const step of [...this.steps.slice(0, steps), { tokens: accepted, nodes }])
      for (const [look, count] of looksOf(step)) counts.set(look, (counts.get(look) || 0) + count);
    return counts;
  }

  /**
   * Return the number of guesses that were rejected in a number of steps; and in the next step, if
   * it is judged.
   * @param {number} steps
   * @param {boolean} judged
   */
  rejectedTo(steps, judged) {
    return this.steps
      .slice(0, steps + Number(judged))
      .reduce((sum, step) => sum + step.nodes.length - TokenText.line(step).path.length, 0);
  }

  /**
   * Return whether a token begins inside a number, which must stay whole.
   * @param {Token | undefined} token
   */
  within(token) {
    return Boolean(this.mirrored && token && numberGoesOn(this.written, token.text));
  }

  /**
   * Return the rejected tokens before a step's own token: a separate text, so that letters and
   * digits around it stand as if it were not there.
   * @param {number[]} numbers
   * @param {Step} step
   * @param {Token | undefined} own
   */
  guess(numbers, step, own) {
    const node = make("bdi", "ouro-guess");
    if (this.within(own)) node.dataset.within = "";
    node.append(...numbers.map((number) => this.rejected(number, step)));
    return node;
  }

  /**
   * Return a rejected token. It stays in its line, so that the kept text has its own lines.
   * @param {number} number
   * @param {Step} step
   */
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

  /**
   * Mark the first token that differs from plain decoding's; its card says why.
   * @param {Parting} parts
   */
  markParting(parts) {
    this.parts = parts;
    const node = this.container.querySelector(`.ouro-token[data-index="${parts.index}"]`);
    if (node) node.dataset.parts = parts.mark;
  }

  /**
   * @param {HTMLElement} node
   * @param {any} facts
   * @param {Step} step
   */
  describe(node, facts, step) {
    /** @type {Record<string, any>} */
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

  /**
   * Show the text as it was at a moment; only changes since the last call are made.
   * @param {number} step
   * @param {number} phase
   */
  show(step, phase) {
    if (this.current >= 0 && this.current !== step && this.spans[this.current])
      this.settle(this.current);
    const upto = Math.min(step + 1, this.steps.length);
    for (let n = this.shown; n < upto; n++) this.later(n, false);
    for (let n = upto; n < this.shown; n++) this.later(n, true);
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

  /**
   * Mark whether a step is behind the moment; a screen reader does not read it then.
   * @param {number} step
   * @param {boolean} later
   */
  later(step, later) {
    this.spans[step].toggleAttribute("data-later", later);
    if (later) this.spans[step].setAttribute("aria-hidden", "true");
    else this.spans[step].removeAttribute("aria-hidden");
  }

  /**
   * Return the tokens that a step shows, in their order.
   * @param {HTMLElement} span
   */
  static written(span) {
    return span.querySelectorAll(".ouro-token, .ouro-rejected");
  }

  /** @param {number} step */
  settle(step) {
    const span = this.spans[step];
    delete span.dataset.stage;
    for (const child of TokenText.written(span)) child.removeAttribute("data-later");
  }

  /** Show the whole text, as while it is being written. */
  showAll() {
    if (this.current >= 0 && this.spans[this.current]) this.settle(this.current);
    for (let n = this.shown; n < this.steps.length; n++) this.later(n, false);
    this.shown = this.steps.length;
    this.current = -1;
  }
}
