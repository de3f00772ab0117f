// Pointer, focus and keys in the text of a run: a token's card opens under the pointer or the
// focus, and stays when it is chosen.
// One token is the text's tab stop: one that can be seen.
const tokenAt = (event) =>
  event.target.closest && event.target.closest(".ouro-token, .ouro-rejected");

// Of a token, where it begins: [from the left, from the top, height].
function middle(node) {
  const boxes = [...node.getClientRects()],
    box = boxes.find(({ width }) => width) || boxes[0] || node.getBoundingClientRect();
  return [(box.left + box.right) / 2, (box.top + box.bottom) / 2, box.height];
}

// The line of a token: numbers of its first and its last, and all as they stand from left to right.
function lineOf(tokens, number) {
  const [, top, high] = middle(tokens[number]);
  const beside = (n) => tokens[n] && Math.abs(middle(tokens[n])[1] - top) < high / 2;
  let first = number,
    last = number;
  while (beside(first - 1)) first -= 1;
  while (beside(last + 1)) last += 1;
  const left = new Map();
  for (let n = first; n <= last; n++) left.set(n, middle(tokens[n])[0]);
  return { first, last, order: [...left.keys()].sort((a, b) => left.get(a) - left.get(b)) };
}

// The number of the token beside one on the screen; behind the edge of a line, of the one on the
// line that the text goes on with there. mirrored: whether its lines begin at the right.
function besideOf(tokens, number, right, mirrored) {
  const { first, last, order } = lineOf(tokens, number),
    next = order[order.indexOf(number) + (right ? 1 : -1)];
  if (next !== undefined) return next;
  const onward = right === mirrored ? first - 1 : last + 1;
  return tokens[onward] && lineOf(tokens, onward).order.at(right ? 0 : -1);
}

export class TokenInput {
  // root: of the view; container: of the text; point(node) and lock(node) are called where a token
  // is pointed at and where it is chosen; listen: see dom.js.
  constructor(root, container, card, point, lock, listen) {
    Object.assign(this, { root, container, card, point, lock, stop: null, pointer: [] });
    listen(document, "pointermove", (event) => this.moved(event));
    listen(document, "scroll", () => this.scrolled(), true);
    listen(document, "keydown", (event) => event.key === "Escape" && card.hide());
    // before what was clicked opens another one
    listen(document, "click", (event) => this.clicked(event), true);
    listen(window, "resize", () => card.reposition());
    container.addEventListener("pointerleave", () => this.leave());
    container.addEventListener(
      "focusin",
      (event) =>
        tokenAt(event) && event.target.matches(":focus-visible") && this.preview(tokenAt(event)),
    );
    container.addEventListener("focusout", () => this.leave());
    container.addEventListener("click", (event) => tokenAt(event) && lock(tokenAt(event)));
    container.addEventListener("keydown", (event) => this.key(event));
  }

  seen() {
    return [
      ...this.container.querySelectorAll(
        ".ouro-step:not([data-later]) .ouro-token:not([data-later])",
      ),
    ];
  }

  rove(next) {
    const { stop } = this;
    if (!next && stop && stop.isConnected && !stop.closest("[data-later]")) return;
    const target = next || this.seen().pop() || this.container.querySelector(".ouro-token");
    if (!target) return;
    if (stop) stop.tabIndex = -1;
    this.stop = target;
    target.tabIndex = 0;
  }

  preview(node) {
    if (!this.card.locked) this.point(node);
  }

  leave() {
    if (!this.card.locked) this.card.hide();
  }

  // A card opens where the pointer itself has moved to a token, not where a token has moved under a
  // pointer that rests.
  moved(event) {
    const [x, y] = this.pointer,
      rests = event.clientX === x && event.clientY === y;
    this.pointer = [event.clientX, event.clientY];
    if (rests || event.pointerType === "touch" || !this.container.contains(event.target)) return;
    const node = tokenAt(event);
    if (!node) this.leave();
    else if (node !== this.card.under || !this.card.open) this.preview(node);
  }

  // What has scrolled away from the pointer loses its card; that of the token with the focus
  // follows it.
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

  clicked({ target }) {
    const own =
      this.root.contains(target) &&
      target.closest(".ouro-card, .ouro-token, .ouro-rejected, [data-node]");
    if (this.card.locked && !own) this.card.hide();
  }

  key(event) {
    const node = tokenAt(event);
    if (event.altKey || event.ctrlKey || event.metaKey || !node) return;
    if (event.key === "Enter") return this.lock(node);
    const all = this.seen(),
      index = all.indexOf(node);
    const mirrored = getComputedStyle(this.container).direction === "rtl";
    const target = {
      ArrowRight: () => besideOf(all, index, true, mirrored),
      ArrowLeft: () => besideOf(all, index, false, mirrored),
      Home: () => 0,
      End: () => all.length - 1,
    }[event.key]?.();
    if (target === undefined || !all[target]) return;
    event.preventDefault();
    this.rove(all[target]);
    all[target].focus();
  }
}
