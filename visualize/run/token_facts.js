// @ts-check
// The facts of a token's card: its position, its writer, the probabilities of both models, and the
// source of its phrase.
import { visible } from "../kit/dom.js";
/** @import { TreeNode, Token, Step, Facts } from "../kit/types" */

/**
 * @param {Token} token
 * @param {Step} step
 */
const own = (token, step) => (token.node !== undefined ? step.nodes[token.node - 1].id : token.id);

export class TokenFacts {
  /**
   * @param {import("./token_text.js").TokenText} text
   * @param {(step: number) => void} jump  goes to the step at which a phrase was learned
   */
  constructor(text, jump) {
    this.text = text;
    this.jump = jump;
  }

  /**
   * Return the facts of an element of the text.
   * @param {HTMLElement} node
   */
  of(node) {
    const step = this.text.steps[Number(node.dataset.step)];
    if (node.classList.contains("ouro-rejected")) return this.node(step, Number(node.dataset.node));
    const index = Number(node.dataset.index);
    return this.token(step, index - this.first(step), index);
  }

  /**
   * Return the index of a step's first token.
   * @param {Step} step
   */
  first(step) {
    return this.text.ends[step.index] - step.tokens.length;
  }

  /**
   * Return the facts of a token, by its index in the step and its index in the text.
   * @param {Step} step
   * @param {number} at
   * @param {number} index
   */
  token(step, at, index) {
    const token = step.tokens[at],
      proposed = token.node !== undefined,
      before = at ? step.tokens[at - 1].node : 0;
    const facts = proposed
      ? { ...step.nodes[token.node - 1], text: token.text, why: token.why, number: token.node }
      : { ...token };
    return this.complete(facts, step, before, token, index);
  }

  /**
   * Return the facts of a node of the step's tree.
   * @param {Step} step
   * @param {number} number
   */
  node(step, number) {
    const at = step.tokens.findIndex((token) => token.node === number);
    if (at >= 0) return this.token(step, at, this.first(step) + at);
    const node = step.nodes[number - 1];
    const above = node.parent ? step.tokens.findIndex((token) => token.node === node.parent) : -1;
    const judged = node.parent === 0 || above >= 0;
    return this.complete(
      { ...node, number, rejected: true },
      step,
      judged ? node.parent : undefined,
      step.tokens[above + 1],
      undefined,
    );
  }

  /**
   * @param {Facts} facts
   * @param {Step} step
   * @param {number | undefined} before
   * @param {Token | undefined} chosen
   * @param {number | undefined} index
   */
  complete(facts, step, before, chosen, index) {
    facts.where = this.whereabouts(step, facts.id, index);
    facts.odds = before === undefined || !step.odds ? undefined : step.odds[before];
    facts.chosen = chosen && own(chosen, step);
    facts.alone = facts.source === "draft" && facts.number === undefined;
    const { parts } = this.text;
    if (parts && parts.index === index) facts.parts = parts.words;
    const phrase = facts.learned && facts.source !== "copy" && facts.source !== "recycled";
    if (phrase) facts.phrase = phraseOf(step, facts);
    const elsewhere = facts.step !== undefined && facts.step !== step.index;
    if (elsewhere && phrase && facts.learned !== "history") {
      facts.learnedAt = facts.step;
      facts.jump = () => this.jump(facts.step);
    }
    return facts;
  }

  /**
   * @param {Step} step
   * @param {number} id
   * @param {number | undefined} index
   */
  whereabouts(step, id, index) {
    const position = index === undefined ? [] : [`position ${index + 1}`];
    return [`step ${step.index + 1}`, ...position, `id ${id}`].join(" · ");
  }
}

/**
 * Return the text of a phrase: the nodes of one origin, each the child of another.
 * @param {Step} step
 * @param {Facts} facts
 */
function phraseOf(step, facts) {
  /** @param {TreeNode} node */
  const like = (node) =>
    node &&
    node.source === facts.source &&
    node.learned === facts.learned &&
    node.step === facts.step;
  let first = facts.number;
  while (step.nodes[first - 1].parent && like(step.nodes[step.nodes[first - 1].parent - 1]))
    first = step.nodes[first - 1].parent;
  let words = "";
  for (let node = first; node;) {
    words += step.nodes[node - 1].text;
    const below = step.nodes.findIndex((other) => other.parent === node && like(other));
    node = below < 0 ? 0 : below + 1;
  }
  return visible(words);
}
