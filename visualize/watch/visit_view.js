// @ts-check
// The runs of this visit, the newest first. A card shows its run, or compares it with the run that
// is shown. The cards are kept for a reload of the page.
import { make, refuse } from "../kit/dom.js";
import { looksOf, originStrip } from "../kit/origin_strip.js";
import { recall, store } from "../kit/page_storage.js";
import { isOther } from "../run/token_summary.js";
/** @import { Mount } from "../kit/types" */

const KEY = "ouroboros-visit";
const MEASURING = "A comparison is being measured: stop it in Compare, or wait.";
const MOST = 8;
const LARGEST = 3_000_000; // characters of all cards; a browser keeps about five million

/**
 * @typedef {{ key: string, at: string, name: string, prompt: string, pace: string,
 *   speedup: string, busy: boolean, strip: any, run: { file: string, each: number[] } }} Card
 * @type {Mount}
 */
export function mount(element, props, watch, trigger) {
  const root = element.querySelector(".ouro-visit"),
    list = root.querySelector(".ouro-visit-cards");
  /** @type {Card[]} */
  let cards = recall(KEY) || [];
  let shown = cards[0]?.key;
  let grouped = true; // as in the legend of the run
  /** @type {HTMLElement} the button with which a run or a comparison was asked for */
  let clicked = null;

  /** @param {Card} card */
  function draw(card) {
    const item = make("li", "ouro-visit-card ouro-size-s ouro-box"),
      show = make("button", "ouro-visit-show ouro-strong ouro-press", card.name);
    show.type = "button";
    show.addEventListener("click", () => {
      clicked = show;
      trigger("show_run", { run: card.run });
    });
    item.dataset.key = card.key;
    if (card.key === shown) item.setAttribute("aria-current", "true");
    item.title = card.prompt;
    const facts = make("p", "", card.pace),
      foot = make("p", "ouro-row");
    if (card.speedup) facts.prepend(make(card.busy ? "small" : "b", "", card.speedup), " ");
    foot.append(make("small", "ouro-visit-prompt ouro-cut ouro-quiet", card.prompt));
    const beside = cards.find(({ key }) => key === shown);
    if (beside && beside !== card && beside.prompt === card.prompt) {
      const compare = make("button", "ouro-toggle", "Compare");
      compare.type = "button";
      compare.setAttribute("aria-label", `Compare ${beside.name} with ${card.name}`);
      compare.addEventListener("click", () => {
        clicked = foot;
        if (document.querySelector('.ouro-compare[data-done="false"]')) refuse(foot, MEASURING);
        else trigger("compare_runs", { a: beside.run, b: card.run });
      });
      foot.append(compare);
    }
    const strip = originStrip(card.strip, props.looks);
    const others = looksOf(card.strip, props.looks).filter(isOther);
    strip.classList.toggle("ouro-grouped", grouped && others.length > 1);
    item.append(show, strip, facts, foot);
    return item;
  }

  function drawAll() {
    root.hidden = !cards.length;
    list.replaceChildren(...cards.map(draw));
  }

  /** @param {Card} card */
  function add(card) {
    const at = cards.findIndex(({ key }) => key === card.key);
    if (at >= 0) cards[at] = card;
    else cards = [card, ...cards].slice(0, MOST);
    while (cards.length > 1 && JSON.stringify(cards).length > LARGEST) cards.pop();
    shown = card.key;
    store(KEY, cards);
    drawAll();
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (value && !value.refused) add(value);
    else if (value && clicked) refuse(clicked, value.refused);
  }

  document.addEventListener("ouro:grouped", ({ detail }) => {
    grouped = detail.grouped;
    drawAll();
  });
  drawAll();
  paint();
  watch("value", paint);
}
