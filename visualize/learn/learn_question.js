// @ts-check
// The question at the end of a chapter: a choice of answers, or "will the target accept these
// guesses?" about a step of the chapter's run.
import { foreign, make, paragraph, visible } from "../kit/dom.js";
import { shownTokens } from "../kit/shown_tokens.js";
import { linked } from "./learn_links.js";
import { showIn } from "./scrolling.js";

const QUIETLY = { preventScroll: true };
const ROUNDS = 8; // of one run, in which another answer is looked for

/** @typedef {import("./learn_view.js").LearnView} LearnView */
/**
 * @typedef {{ run: string, step: number, tokens: string[], tokens_before: number, accepted: number,
 *   why: string }} Round
 */

/**
 * @param {string} text
 * @param {() => void} act
 */
function option(text, act) {
  const button = linked(make("button", "ouro-learn-option", text));
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

/**
 * Ask a question; the view waits until it is drawn.
 * @param {LearnView} view
 * @param {any} question
 */
export function ask(view, question) {
  if (question.kind === "predict") return predict(view, question);
  const list = make("div", "ouro-learn-options ouro-wrap");
  /** @type {HTMLButtonElement[]} */
  const buttons = question.options.map((/** @type {string} */ text, /** @type {number} */ n) =>
    option(text, () => {
      buttons.forEach((button, number) => {
        button.disabled = true;
        const wrong = number === n ? "wrong" : "";
        button.dataset.verdict = number === question.answer ? "right" : wrong;
      });
      settle(view, n === question.answer, question.why);
    }),
  );
  list.append(...buttons);
  view.part("answer").append(list);
  return undefined;
}

/**
 * Return a step to ask about. No view of a run has shown yet what the target writes there, and the
 * answer differs from the last ones if possible.
 * @param {any} question
 * @param {number[]} last
 * @returns {Round | undefined}
 */
function unseen(question, last) {
  /** @type {Round[]} */
  const rounds = question.rounds;
  const fresh = rounds.filter(
    (round) => round.tokens_before >= shownTokens(question.prompts[round.run]),
  );
  const near = fresh.filter((round) => round.run === fresh[0].run).slice(0, ROUNDS);
  return near.find((round) => !last.includes(round.accepted)) || fresh[0];
}

/**
 * Show the draft's guesses in a step, ask how many of them the target accepts, then show its
 * verdict.
 * @param {LearnView} view
 * @param {any} question
 * @param {number[]} last  answers of the questions before
 * @returns {Promise<void>}
 */
async function predict(view, question, last = []) {
  const round = unseen(question, last),
    answer = view.part("answer");
  answer.replaceChildren();
  if (!round) return answer.append(paragraph(question.none));
  const moment = (/** @type {string} */ stage) => ({
    run: round.run,
    at: { step: round.step, stage },
    spot: `.ouro-step[data-step="${round.step}"]`,
  });
  await view.point(moment("draft"));
  if (!view.asks(question)) return; // the reader has moved on meanwhile
  const guesses = foreign(make("p", "ouro-learn-guesses ouro-mono"));
  round.tokens.forEach((text, n) =>
    guesses.append(
      make("span", "ouro-learn-guess", visible(text)),
      n + 1 < round.tokens.length ? " " : "",
    ),
  );
  const list = make("div", "ouro-learn-options ouro-wrap");
  const buttons = Array.from({ length: round.tokens.length + 1 }, (_, n) =>
    option(`the first ${n}`, async () => {
      for (const button of buttons) button.disabled = true;
      buttons[n].dataset.verdict = "wrong";
      buttons[round.accepted].dataset.verdict = "right";
      settle(view, n === round.accepted, round.why);
      const answers = [...last.slice(-1), round.accepted];
      if (unseen(question, answers)) {
        const again = option("Another one", () => predict(view, question, answers));
        answer.append(again);
        again.focus(QUIETLY);
      }
      await view.point(moment("commit"));
    }),
  );
  list.append(...buttons);
  answer.append(guesses, list);
  if (last.length) buttons[0].focus(QUIETLY);
  view.revealSpots();
}

/**
 * Show the verdict on an answer.
 * @param {LearnView} view
 * @param {boolean} right
 * @param {string} sentence
 */
function settle(view, right, sentence) {
  const box = make("div", "ouro-learn-verdict ouro-callout");
  box.dataset.right = String(right);
  box.setAttribute("role", "status");
  box.append(make("strong", "", right ? "Right." : "Not quite."), linked(paragraph(sentence)));
  view.part("answer").append(box);
  showIn(view.part("body"), [box]);
  // the pressed button is disabled now, and would lose the focus
  view.onward().focus(QUIETLY);
  view.answered(right);
}
