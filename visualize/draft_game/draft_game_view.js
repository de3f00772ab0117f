// @ts-check
// "Be the draft": the text so far, with the writer of each token, and the result of the last guess.
import { fill, inline, make, mirrored, numberGoesOn } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-draft-game");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-draft-game-" + name);
  /** @type {Record<string, string>} */
  const KEY = {
    draft: "yours, accepted",
    struck: "yours, rejected",
    correction: "corrected by the target",
    bonus: "added by the target",
  };

  /**
   * Return elements for the tokens. Rejected tokens in a row are one text; inside a number they are
   * a mark.
   * @param {{ text: string, look: string }[]} tokens
   */
  function written(tokens) {
    /** @type {HTMLElement[]} */
    const nodes = [];
    const turned = mirrored(tokens.map(({ text }) => text).join(""));
    let before = "";
    for (const one of tokens) {
      const last = nodes.at(-1),
        guess = last?.tagName === "BDI" && last;
      if (one.look !== "struck") {
        if (guess && turned && numberGoesOn(before, one.text)) {
          guess.classList.add("ouro-mark-inside");
          guess.title = `${KEY.struck}: ${guess.textContent}`;
        }
        nodes.push(token(one));
        before = one.text;
      } else if (guess) guess.append(token(one));
      else {
        nodes.push(make("bdi", "ouro-draft-game-struck ouro-quiet ouro-mono"));
        nodes.at(-1).append(token(one));
      }
    }
    return nodes;
  }

  /** @param {{ text: string, look: string }} token */
  function token({ text, look }) {
    if (look === "given") return make("span", "ouro-prompt", text);
    const node = make(
      "span",
      look === "struck" ? "ouro-draft-game-struck ouro-quiet ouro-mono" : "ouro-token",
      look === "struck" ? inline(text) : text,
    );
    node.dataset.look = look;
    node.title = KEY[look];
    return node;
  }

  function key() {
    return Object.entries(KEY).map(([look, words]) => {
      const item = make("li"),
        sample = make(
          "span",
          look === "struck" ? "ouro-draft-game-struck ouro-quiet ouro-mono" : "ouro-token",
          "words",
        );
      sample.dataset.look = look;
      item.append(sample, " " + words);
      return item;
    });
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    root.dataset.done = String(value.done);
    root.dataset.rounds = String(value.round);
    fill(part("status"), value.status);
    fill(part("said"), value.said);
    part("text").replaceChildren(...written(value.text));
    part("text").scrollTop = part("text").scrollHeight;
  }

  part("key").append(...key());
  paint();
  watch("value", paint);
}
