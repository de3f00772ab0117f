// @ts-check
// A word or number of a text that is linked to a part of the picture lights that part under the
// pointer, with the focus or after a tap; pointing at the part lights the word. In the texts
// `[word](part)` is such a link. Numbers and formulas are marked for translating browsers to leave.
import { make } from "../kit/dom.js";

/**
 * Parts of a recorded run by the names that texts use; each name may also be a `data-part`.
 * @type {Record<string, string>}
 */
const RUN = {
  speedup: ".ouro-tile:nth-child(2)",
  length: ".ouro-tile:nth-child(3)",
  saved: ".ouro-tile:nth-child(4)",
  same: ".ouro-tile:nth-child(5)",
  proposed: ".ouro-tree [data-node]",
  drafted: '.ouro-tree [data-look="draft"][data-node]',
  suffix: '.ouro-tree [data-look="suffix"][data-node]',
  rejected: '.ouro-tree .ouro-node[data-state="rejected"]',
  answers: ".ouro-tree .ouro-answer",
  equal: '.ouro-tree .ouro-answer[data-kind="equal"]',
  own: '.ouro-tree .ouro-answer:is([data-kind="bonus"], [data-kind="correction"])',
  history: '.ouro-token[data-learned="history"]',
  odds: ".ouro-card .ouro-odds",
  numbers: ".ouro-numbers",
};
const TERM = String.raw`(?:min\([^)]*\)|γc|[αγcrpquWNE](?![\p{L}\p{N}])|\d+(?:[.,]\d+)*[×%]?)`;
const FORMULA = String.raw`\(?${TERM}\)?(?:\s?[·−+=/]\s?\(?${TERM}\)?)*`;
const NAME = String.raw`\p{Lu}[\p{L}\p{N}-]*\d[\p{L}\p{N}-]*`; // of a model or a machine
const MARKED = new RegExp(
  String.raw`\[([^\]]+)\]\((\w+)\)|(?<![\p{L}\p{N}])(?:${NAME}|${FORMULA})`,
  "gu",
);

/**
 * Make the links of a text, and mark what is not to be translated.
 * @template {HTMLElement} Box
 * @param {Box} node
 */
export function linked(node) {
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walk.nextNode()) texts.push(/** @type {Text} */ (walk.currentNode));
  for (const text of texts.filter((one) => one.parentElement.closest("[translate=no]") === null)) {
    /** @type {(string | Node)[]} */
    const pieces = [];
    let read = 0;
    for (const match of text.data.matchAll(MARKED)) {
      const piece = match[1] ? make("button", "ouro-link", match[1]) : make("span", "", match[0]);
      if (match[1]) {
        piece.dataset.part = match[2];
        piece.setAttribute("type", "button");
      }
      if (/\d/.test(piece.textContent) || !match[1]) piece.translate = false;
      pieces.push(text.data.slice(read, match.index), piece);
      read = match.index + match[0].length;
    }
    text.replaceWith(...pieces, text.data.slice(read));
  }
  return node;
}

/**
 * Light parts and words together.
 * @param {HTMLElement} root
 * @param {HTMLElement} words  the texts
 * @param {HTMLElement[]} pictures  what holds pictures
 */
export function lightTogether(root, words, pictures) {
  const links = () => /** @type {HTMLElement[]} */ ([...words.querySelectorAll(".ouro-link")]);
  const selector = (/** @type {HTMLElement} */ link) =>
    [`[data-part~="${link.dataset.part}"]`, RUN[link.dataset.part]].filter(Boolean).join(", ");
  /** @param {Element[]} nodes */
  const light = (nodes) => {
    for (const node of root.querySelectorAll("[data-linked]")) node.removeAttribute("data-linked");
    for (const node of nodes) node.setAttribute("data-linked", "");
  };
  /** @param {Event} event */
  const fromWord = ({ target }) => {
    const link = /** @type {HTMLElement} */ (target).closest(".ouro-link");
    const parts = (/** @type {HTMLElement} */ box) => [...box.querySelectorAll(selector(link))];
    light(link instanceof HTMLElement ? [link, ...pictures.flatMap(parts)] : []);
  };
  for (const name of ["pointerover", "focusin", "click"]) words.addEventListener(name, fromWord);
  words.addEventListener("focusout", () => light([]));
  /** @param {Event} event */
  const fromPicture = ({ target }) => {
    const at = /** @type {Element} */ (target);
    const of = links().filter((link) => at.closest(selector(link)));
    light(of.flatMap((link) => [link, at.closest(selector(link))]));
  };
  for (const box of pictures) box.addEventListener("pointerover", fromPicture);
  for (const box of [words, ...pictures]) box.addEventListener("pointerleave", () => light([]));
}
