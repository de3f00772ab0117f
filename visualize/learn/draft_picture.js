// @ts-check
// The reader is the draft: the words that they type are checked against what the target wrote in a
// recorded run.
import { counted, foreign, make, quote } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

const MOST = 60; // characters of a guess

/**
 * Return how many of the next tokens a guess has as they are. A line cannot contain a line break,
 * so a space before more words stands for one.
 * @param {string[]} next
 * @param {string} guess
 */
function agreeing(next, guess) {
  let count = 0,
    read = 0;
  for (const piece of next) {
    const left = guess.slice(read),
      blank = /^\s+(?=\S)/.exec(left);
    if (piece.trim() ? !left.startsWith(piece) : !blank) break;
    read += piece.trim() ? piece.length : blank[0].length;
    count += 1;
  }
  return { count, rest: guess.slice(read) };
}

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ prompt: string, pieces: string[], begun: number, rival: string, length: number }} */
  const { prompt, pieces, begun, rival, length } = JSON.parse(value);
  const text = foreign(make("p", "ouro-copy-text")),
    form = make("form", "ouro-draft-form"),
    label = make("label", "", "Your draft: the next words"),
    input = make("input", "ouro-copy-input ouro-framed"),
    check = make("button", "", "Check"),
    said = make("p", "ouro-picture-said");
  let at = begun,
    passes = 0;
  said.setAttribute("role", "status");
  Object.assign(input, { type: "text", maxLength: MOST, autocomplete: "off", spellcheck: false });
  label.append(input);
  form.append(label, check);

  /** @param {[string, string][]} [parts]  what the last pass did: texts with their looks */
  function paint(parts = []) {
    const fresh = parts.filter(([, look]) => look !== "gone").length;
    text.replaceChildren(pieces.slice(0, at - fresh).join(""));
    for (const [part, look] of parts) {
      const span = make("span", "", part);
      span.dataset.look = look;
      text.append(span);
    }
    text.scrollTop = text.scrollHeight;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const next = pieces.slice(at);
    if (!next.length) return;
    const typed = input.value,
      spaced = /^\s/.test(next[0]) ? " " + typed.trimStart() : typed;
    const { count, rest } = agreeing(next, spaced.trimEnd());
    const own = next.slice(count, count + 1);
    passes += 1;
    at += count + own.length;
    paint([
      ...next.slice(0, count).map((one) => /** @type {[string, string]} */ ([one, "copy"])),
      ...(rest.trim() ? [/** @type {[string, string]} */ ([rest, "gone"])] : []),
      ...own.map((one) => /** @type {[string, string]} */ ([one, "match"])),
    ]);
    const mine = (at - begun) / passes;
    said.replaceChildren(
      `${counted(count, "token")} of your draft accepted`,
      ...(own.length ? [", the target adds ", quote(own[0].trim() || "↵")] : []),
      `. So far ${counted(at - begun, "token")} in ${counted(passes, "pass", "passes")}: ` +
        `${mine.toFixed(2)} a pass; ${rival} had ${length.toFixed(2)} in this text.` +
        (at < pieces.length ? "" : " The text is complete."),
    );
    check.disabled = at >= pieces.length;
    input.value = "";
    input.focus({ preventScroll: true });
  });

  const asked = make("p", "", "The prompt: ");
  asked.append(quote(prompt));
  element.append(
    asked,
    text,
    form,
    said,
    make(
      "figcaption",
      "",
      "Blue: accepted tokens of your draft. Struck through: rejected. Yellow: the target's own token. " +
        "A space counts as a line break. An empty draft is plain decoding.",
    ),
  );
  paint();
}
