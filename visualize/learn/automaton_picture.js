// @ts-check
// A suffix automaton over a text that the reader types: at each position it marks the longest
// earlier match and the tokens that would be copied.
import { SuffixAutomaton } from "./automaton.js";
import { counted, fill, foreign, make } from "../kit/dom.js";
import { stepper } from "../kit/stepper.js";
/** @import { Mount } from "../kit/types" */

const LONGEST = 400;

/**
 * Return words, numbers and signs, each with the blank before it: they stand for a model's tokens
 * and need no vocabulary.
 * @param {string} text
 * @returns {string[]}
 */
export const pieces = (text) =>
  text.match(/ ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\p{L}\p{M}\p{N}\s]|\s/gu) || [];

/**
 * Return the automaton's match and size after each number of tokens.
 * @param {string[]} tokens
 */
export function readAlong(tokens) {
  const automaton = new SuffixAutomaton();
  const found = [{ match: automaton.recent, states: automaton.states }];
  for (const token of tokens) {
    automaton.append(token);
    found.push({ match: automaton.recent, states: automaton.states });
  }
  return found;
}

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * `read`: the part of the text that is read at first; without it, up to the longest right copy.
   * @type {{ text: string, read?: string }}
   */
  const { text, read: begun } = JSON.parse(value);
  const box = foreign(make("textarea", "ouro-copy-input ouro-framed")),
    label = make("label", "ouro-copy-label ouro-size-m"),
    shown = foreign(make("p", "ouro-copy-text"));
  const said = make("p", "ouro-copy-said");
  box.value = text;
  box.maxLength = LONGEST;
  box.rows = 4;
  label.append(make("span", "", `Your text, ${LONGEST} characters at most`), box);
  said.setAttribute("role", "status");
  shown.setAttribute("aria-hidden", "true"); // the line below says it in words
  /** @type {string[]} */
  let tokens = [];
  let found = readAlong(tokens);
  const steps = stepper("Place in the text", (at) => draw(at));

  /**
   * Return the end of the copied tokens, one token more than matched.
   * @param {number} at
   */
  const copyEnd = (at) =>
    found[at].match ? Math.min(at, found[at].match.end + found[at].match.length + 1) : -1;
  /**
   * Return how many copied tokens the text continues with.
   * @param {number} at
   */
  function right(at) {
    if (!found[at].match) return 0;
    const copied = tokens.slice(found[at].match.end, copyEnd(at)),
      wrong = copied.findIndex((token, n) => token !== tokens[at + n]);
    return wrong < 0 ? copied.length : wrong;
  }

  /** @param {number} at */
  function draw(at) {
    const { match, states } = found[at];
    const from = match ? match.end - match.length : -1,
      end = copyEnd(at);
    shown.replaceChildren(
      ...tokens.map((token, n) => {
        const span = make("span", "", token);
        const looks = [
          n >= at && "later",
          match && n >= at - match.length && n < at && "end",
          n >= from && match && n < match.end && "match",
          match && n >= match.end && n < end && "copy",
        ];
        span.dataset.look = looks.filter(Boolean).join(" ");
        return span;
      }),
    );
    const kept = right(at);
    /**
     * @param {number} low
     * @param {number} high
     */
    const quoted = (low, high) => "“\u2068" + tokens.slice(low, high).join("") + "\u2069”";
    const words = !match
      ? `${counted(at, "token")} read, ${counted(states, "node")}. The last token has ` +
        `not occurred before: nothing is copied.`
      : `${counted(at, "token")} read, ${counted(states, "node")}. ` +
        `${quoted(at - match.length, at)} occurred before, followed by ` +
        `${quoted(match.end, end)}, which would be copied` +
        (at < tokens.length
          ? `; your text goes on with ${kept} of these ${counted(end - match.end, "token")}.`
          : ".");
    fill(said, words);
  }

  function read() {
    // a blank belongs to the word that follows it, which is not typed yet
    const text = box.value.slice(0, LONGEST).trim();
    tokens = pieces(text && " " + text);
    found = readAlong(tokens);
    steps.range(tokens.length, tokens.length);
  }

  box.addEventListener("input", read);
  const key = make(
    "figcaption",
    "",
    "Outlined: the end of what was read. Yellow: where it occurred before. Blue: what would be " +
      "copied, one token more than matched. Pale: not read yet. Words and signs stand for " +
      "tokens here.",
  );
  element.append(label, steps.element, shown, said, key);
  read();
  const helped = found.reduce((best, _, at) => (right(at) > right(best) ? at : best), 0);
  steps.go(begun ? pieces(" " + begun).length : helped);
}
