// @ts-check
// The card of one token: its writer, the reason for it, and the probabilities of both models.
import { fill, make, percent, quote, visible } from "../kit/dom.js";
/** @import { Looks, Odds, Facts } from "../kit/types" */

/** The card counts smaller probabilities instead of listing them. */
const FAINT = 0.001;

export class TokenCard {
  /**
   * @param {HTMLElement} card
   * @param {HTMLElement} frame
   * @param {Looks} looks
   * @param {(locked: boolean) => void} closed  called when a card has closed
   */
  constructor(card, frame, looks, closed) {
    this.card = card;
    this.frame = frame;
    this.looks = looks;
    this.closed = closed;
    this.locked = false;
    this.gap = 4;
    this.edge = 8;
    /** @type {HTMLElement | undefined} */
    this.under = undefined;
    this.lesson = ""; // the address of a lesson about different texts
    this.sheet = matchMedia("(pointer: coarse), (max-width: 640px)"); // as in run.css
    // as in learn.css: a lesson has room for a card beside its run
    this.wide = matchMedia("(min-width: 1200px) and (pointer: fine)");
  }

  get open() {
    return !this.card.hidden;
  }

  hide() {
    const { locked, open } = this;
    if (this.card.contains(document.activeElement)) this.under.focus({ preventScroll: true });
    this.release();
    this.card.hidden = true;
    if (open) this.closed(locked);
  }

  release() {
    this.locked = false;
    if (this.under) {
      this.under.removeAttribute("aria-describedby");
      delete this.under.dataset.open;
    }
    this.card.classList.remove("ouro-locked");
    delete this.card.dataset.up;
    this.card.setAttribute("role", "tooltip");
    this.card.removeAttribute("aria-label");
  }

  /**
   * @param {Facts} facts
   * @param {HTMLElement} under  the element that the card is about
   * @param {boolean} lock
   */
  show(facts, under, lock) {
    this.release();
    this.under = under;
    under.setAttribute("aria-describedby", this.card.id);
    const look = this.looks.get(facts.look);
    const head = make("p", "ouro-card-head ouro-wrap");
    const name = facts.rejected ? "rejected: " + look.label : look.label;
    head.append(
      quote(visible(facts.text), "ouro-quote"),
      make("span", "ouro-glyph", look.glyph),
      make("span", "", name),
    );
    const parts = [head, make("p", "ouro-facts", facts.where)];
    if (facts.origin) parts.push(make("p", "ouro-origin", facts.origin));
    if (facts.why) parts.push(fill(make("p", "ouro-why"), facts.why));
    if (facts.parts) parts.push(this.parting(facts.parts));
    if (facts.odds) parts.push(this.odds(facts));
    if (facts.phrase) {
      const phrase = make("p", "ouro-phrase", "The phrase: ");
      phrase.append(quote(facts.phrase));
      parts.push(phrase);
    }
    this.card.replaceChildren(...parts);
    this.card.dataset.look = facts.look;
    this.card.hidden = false;
    if (lock) this.lock(facts);
    this.reposition();
  }

  /** Whether the card is in a column of its own. */
  get beside() {
    return this.wide.matches && this.frame.closest(".ouro-learn") !== null;
  }

  /**
   * Place the card inside the window and beside its token, never over it: below, or above if there
   * is more space. A longer card scrolls. On a phone a locked card is a sheet at the lower edge.
   */
  reposition() {
    if (this.card.hidden) return;
    const { card, under, gap, edge } = this,
      { clientWidth: wide, clientHeight } = document.documentElement;
    const high =
      clientHeight -
      // see learn_view.js
      (parseFloat(getComputedStyle(this.frame).getPropertyValue("--ouro-sheet")) || 0);
    card.style.cssText = "";
    if (this.locked && (this.sheet.matches || this.beside)) return;
    const box = under.getBoundingClientRect(),
      [line = box] = under.getClientRects(),
      frame = this.frame.getBoundingClientRect();
    const below = high - edge - gap - box.bottom,
      above = box.top - gap - edge;
    const up = card.offsetHeight > below && above > below;
    card.style.maxHeight = Math.max(0, Math.min(up ? above : below, high - 2 * edge)) + "px";
    const right = Math.min(frame.right, wide - edge) - card.offsetWidth,
      left = Math.max(frame.left, edge, Math.min(line.left, right));
    const top = up
      ? Math.min(box.top - gap, high - edge) - card.offsetHeight
      : Math.max(box.bottom + gap, edge);
    card.style.left = left - frame.left - this.frame.clientLeft + "px";
    card.style.top = top - frame.top - this.frame.clientTop + "px";
  }

  /**
   * Scroll the page until the token is above a card that is a sheet. If there is nothing to scroll,
   * the card moves up.
   */
  uncover() {
    if (!this.locked || !this.sheet.matches) return;
    const space = () =>
      this.card.getBoundingClientRect().top - this.gap - this.under.getBoundingClientRect().bottom;
    if (space() < 0) scrollBy({ top: Math.ceil(-space()), behavior: "instant" });
    if (space() < 0) this.card.dataset.up = "";
  }

  /** @param {Facts} facts */
  lock(facts) {
    this.locked = true;
    this.under.dataset.open = "";
    this.card.classList.add("ouro-locked");
    this.card.setAttribute("role", "group");
    this.card.setAttribute("aria-label", "About the token " + visible(facts.text));
    const close = make("button", "ouro-close", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Close (Escape)");
    close.addEventListener("click", () => this.hide());
    this.card.prepend(close);
    if (facts.learnedAt === undefined) return;
    const jump = make(
      "button",
      "ouro-jump ouro-pill",
      `go to step ${facts.learnedAt + 1}, where it was learned`,
    );
    jump.type = "button";
    jump.addEventListener("click", () => facts.jump());
    this.card.append(jump);
  }

  /**
   * Return why the text differs from plain decoding's from this token on, with a link to the lesson
   * about it.
   * @param {string} words
   */
  parting(words) {
    const told = fill(make("p", "ouro-parting"), words);
    if (!this.lesson) return told;
    const link = make("a", "", "Why texts can part");
    link.href = this.lesson;
    told.append(" ", link);
    return told;
  }

  /**
   * Return mirrored bars: the draft to the left, the target to the right of each token.
   * @param {Facts} facts
   */
  odds(facts) {
    const table = make("table", "ouro-odds ouro-digits"),
      head = make("tr"),
      [first] = facts.odds;
    const drafted = first[3] !== null,
      noisy = first[4] !== null,
      left = first[5] !== null;
    // what was drawn by p and q is compared with them, and a zero in all columns is the same one
    const zero = left ? "0" : "<0.1%";
    if (drafted) head.append(make("th", "", "draft"));
    head.append(make("th", "", "token"), make("th", "", facts.alone ? "draft" : "target"));
    if (noisy) head.append(make("th", "", "noise"));
    if (left) head.append(make("th", "", "left of it"));
    table.append(head);
    /** @param {Odds} row */
    const named = (row) => row[0] === facts.id || row[0] === facts.chosen;
    const best = new Set([...facts.odds].sort((a, b) => b[3] - a[3]).slice(0, drafted ? 10 : 0));
    const likeliest = facts.odds.filter((row, index) => index < 10 || named(row) || best.has(row));
    /** @param {Odds} row */
    const seen = (row) => named(row) || row[2] >= FAINT || row[3] >= FAINT;
    const rows = likeliest.filter(seen);
    for (const row of rows) {
      const line = make(
        "tr",
        row[0] === facts.chosen ? "ouro-chosen" : row[0] === facts.id ? "ouro-this" : "",
      );
      /**
       * @param {number} value
       * @param {"draft" | "target" | "left"} side
       */
      const bar = (value, side) => {
        const cell = make("td", "ouro-bar ouro-" + side),
          fill = make("i");
        fill.style.width = 100 * value + "%";
        if (side !== "left") fill.dataset.look = side;
        cell.append(fill, make("span", "", percent(value, zero)));
        return cell;
      };
      if (drafted) line.append(bar(row[3], "draft"));
      const token = make("th");
      token.append(quote(visible(row[1])));
      line.append(token, bar(row[2], "target"));
      if (noisy) line.append(make("td", "ouro-number", row[4].toFixed(2)));
      if (left) line.append(bar(row[5], "left"));
      table.append(line);
    }
    const faint = likeliest.length - rows.length;
    if (faint) {
      const told = make("td", "", `${faint} more below ${100 * FAINT}%`),
        rest = make("tr", "ouro-rest ouro-quiet");
      told.colSpan = head.children.length;
      rest.append(told);
      table.append(rest);
    }
    return table;
  }
}
