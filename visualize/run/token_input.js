// @ts-check
// Pointer, focus and keys in the text of a run. A token's card opens under the pointer or the
// focus, and stays when the token is chosen. One visible token is the text's tab stop.
/** @import { Listen } from "../kit/types" */

/**
 * @param {any} event
 * @returns {HTMLElement | undefined}
 */
const tokenAt = (event) =>
  event.target.closest && event.target.closest(".ouro-token, .ouro-rejected");

/**
 * Return the middle of a token's first box that has a width: [from the left, from the top, height].
 * @param {HTMLElement} node
 */
function middle(node) {
  const boxes = [...node.getClientRects()],
    box = boxes.find(({ width }) => width) || boxes[0] || node.getBoundingClientRect();
  return [(box.left + box.right) / 2, (box.top + box.bottom) / 2, box.height];
}

/**
 * Return the line of a token: the numbers of its first and last token, and all from left to right.
 * @param {HTMLElement[]} tokens
 * @param {number} number
 */
function lineOf(tokens, number) {
  const [, top, high] = middle(tokens[number]);
  /** @param {number} n */
  const beside = (n) => tokens[n] && Math.abs(middle(tokens[n])[1] - top) < high / 2;
  let first = number,
    last = number;
  while (beside(first - 1)) first -= 1;
  while (beside(last + 1)) last += 1;
  const left = new Map();
  for (let n = first; n <= last; n++) left.set(n, middle(tokens[n])[0]);
  return { first, last, order: [...left.keys()].sort((a, b) => left.get(a) - left.get(b)) };
}

/**
 * Return the number of the token beside one on the screen; at the edge of a line, the first token
 * of the line on which the text continues.
 * @param {HTMLElement[]} tokens
 * @param {number} number
 * @param {boolean} right
 * @param {boolean} mirrored  whether lines begin at the right
 */
function besideOf(tokens, number, right, mirrored) {
  const { first, last, order } = lineOf(tokens, number),
    next = order[order.indexOf(number) + (right ? 1 : -1)];
  if (next !== undefined) return next;
  const onward = right === mirrored ? first - 1 : last + 1;
  return tokens[onward] && lineOf(tokens, onward).order.at(right ? 0 : -1);
}

export class TokenInput {
  /**
   * @param {HTMLElement} root  the view
   * @param {HTMLElement} container  the text
   * @param {import("./token_card.js").TokenCard} card
   * @param {(token: HTMLElement) => void} point  called when a token is pointed at
   * @param {(token: HTMLElement) => void} lock  called when a token is chosen
   * @param {Listen} listen
   */
  constructor(root, container, card, point, lock, listen) {
    this.root = root;
    this.container = container;
    this.card = card;
    this.point = point;
    this.lock = lock;
    /** @type {HTMLElement | null} */
    this.stop = null;
    /** @type {number[]} where the pointer was last */
    this.pointer = [];
    listen(document, "pointermove", (event) => this.moved(event));
    listen(document, "scroll", () => this.scrolled(), true);
    listen(document, "keydown", (event) => event.key === "Escape" && card.hide());
    // before the click opens another card
    listen(document, "click", (event) => this.clicked(event), true);
    listen(window, "resize", () => card.reposition());
    container.addEventListener("pointerleave", () => this.leave());
    container.addEventListener(
      "focusin",
      (event) =>
        tokenAt(event) &&
        /** @type {Element} */ (event.target).matches(":focus-visible") &&
        this.preview(tokenAt(event)),
    );
    container.addEventListener("focusout", () => this.leave());
    container.addEventListener("click", (event) => tokenAt(event) && lock(tokenAt(event)));
    container.addEventListener("keydown", (event) => this.key(event));
  }

  /** @returns {HTMLElement[]} */
  seen() {
    return [
      ...this.container.querySelectorAll(
        ".ouro-step:not([data-later]) .ouro-token:not([data-later])",
      ),
    ];
  }

  /** @param {HTMLElement} next */
  rove(next = null) {
    const { stop } = this;
    if (!next && stop && stop.isConnected && !stop.closest("[data-later]")) return;
    const target = next || this.seen().pop() || this.container.querySelector(".ouro-token");
    if (!target) return;
    if (stop) stop.tabIndex = -1;
    this.stop = target;
    target.tabIndex = 0;
  }

  /** @param {HTMLElement} node */
  preview(node) {
    if (!this.card.locked) this.point(node);
  }

  leave() {
    if (!this.card.locked) this.card.hide();
  }

  /**
   * Open a card where the pointer itself moved to a token, not where a token moved under a pointer
   * at rest.
   * @param {PointerEvent} event
   */
  moved(event) {
    const [x, y] = this.pointer,
      rests = event.clientX === x && event.clientY === y;
    this.pointer = [event.clientX, event.clientY];
    const inside = this.container.contains(/** @type {Node} */ (event.target));
    if (rests || event.pointerType === "touch" || !inside) return;
    const node = tokenAt(event);
    if (!node) this.leave();
    else if (node !== this.card.under || !this.card.open) this.preview(node);
  }

  /**
   * Close the card of a token that has scrolled away from the pointer. The card of a focused token
   * follows it.
   */
  scrolled() {
    const { card } = this,
      [x, y] = this.pointer;
    if (!card.open) return;
    const pointed = x !== undefined && document.elementFromPoint(x, y);
    const stays =
      card.locked ||
      document.activeElement === card.under ||
      (pointed && tokenAt({ target: pointed }) === card.under);
    if (!stays) card.hide();
  }

  /** @param {any} event */
  clicked({ target }) {
    const own =
      this.root.contains(target) &&
      target.closest(".ouro-card, .ouro-token, .ouro-rejected, [data-node]");
    if (this.card.locked && !own) this.card.hide();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const node = tokenAt(event);
    if (event.altKey || event.ctrlKey || event.metaKey || !node) return;
    if (event.key === "Enter") return this.lock(node);
    const all = this.seen(),
      index = all.indexOf(node);
    const mirrored = getComputedStyle(this.container).direction === "rtl";
    /** @type {Record<string, () => number | undefined>} */
    const targets = {
      ArrowRight: () => besideOf(all, index, true, mirrored),
      ArrowLeft: () => besideOf(all, index, false, mirrored),
      Home: () => 0,
      End: () => all.length - 1,
    };
    const target = targets[event.key]?.();
    if (target === undefined || !all[target]) return;
    event.preventDefault();
    this.rove(all[target]);
    all[target].focus();
  }
}
