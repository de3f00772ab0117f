// @ts-check
// The field's terms in the sentences of a run: each is a button that opens its explanation, for a
// mouse, a finger and the keyboard.
import { make } from "../kit/dom.js";

/** @import { Listen } from "../kit/types" */

const GAP = 6; // pixels between a term and its explanation

export class Terms {
  /**
   * @param {HTMLElement} root  the view; `data-terms` has the explanation of each term
   * @param {Listen} listen
   */
  constructor(root, listen) {
    /** @type {[string, string][]} */
    const explained = root.closest(".ouro-learn") // a lesson introduces its terms itself
      ? []
      : Object.entries(JSON.parse(root.dataset.terms));
    this.words = explained.map(([term, words]) => ({
      words,
      term: new RegExp(`\\b${term}(e?s)?\\b`, "i"),
    }));
    this.box = root.querySelector(".ouro-explanation");
    this.open = false;
    this.box.addEventListener("toggle", (/** @type {any} */ { newState }) => {
      this.open = newState === "open";
      this.place();
    });
    listen(document, "scroll", () => this.open && this.box.hidePopover(), true);
  }

  /**
   * Make the first mention of each term in a sentence a button.
   * @template {HTMLElement} Node
   * @param {Node} node
   */
  introduce(node) {
    for (const { term, words } of this.words) {
      const text = [...node.childNodes].find(
        (part) => part.nodeType === Node.TEXT_NODE && term.test(part.textContent),
      );
      if (!text) continue;
      const match = text.textContent.match(term),
        [shown] = match,
        rest = /** @type {Text} */ (text).splitText(match.index);
      rest.splitText(shown.length);
      rest.replaceWith(this.button(shown, words));
    }
    return node;
  }

  /**
   * @param {string} shown
   * @param {string} words
   */
  button(shown, words) {
    const node = make("button", "ouro-term", shown);
    node.type = "button";
    node.title = words;
    node.addEventListener("click", (event) => {
      event.stopPropagation(); // it may stand in a line that is a button itself
      this.explain(node, words);
    });
    return node;
  }

  /**
   * Open an explanation at a term.
   * @param {HTMLElement} at
   * @param {string} words
   */
  explain(at, words) {
    this.at = at;
    this.box.textContent = words;
    this.box.showPopover?.();
    this.place();
  }

  /** Put the explanation below its term, inside the window. */
  place() {
    if (!this.at) return;
    const { left, bottom, top } = this.at.getBoundingClientRect(),
      { offsetWidth, offsetHeight } = this.box,
      below = bottom + GAP,
      fits = below + offsetHeight < innerHeight;
    this.box.style.left = `${Math.max(GAP, Math.min(left, innerWidth - offsetWidth - GAP))}px`;
    this.box.style.top = `${fits ? below : top - offsetHeight - GAP}px`;
  }
}
