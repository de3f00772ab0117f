// Pointer, focus and keys in the text of a run: a token's card opens under the pointer or the
// focus, and stays when it is chosen.
// One token is the text's tab stop: one that can be seen.
const tokenAt = (event) =>
  event.target.closest && event.target.closest(".ouro-token, .ouro-rejected");

export class TokenHands {
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
    const target = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: all.length - 1 }[
      event.key
    ];
    if (target === undefined || !all[target]) return;
    event.preventDefault();
    this.rove(all[target]);
    all[target].focus();
  }
}
