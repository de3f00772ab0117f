// @ts-check
// Plain decoding beside a run, on the same clock.
import { foreign } from "../kit/dom.js";

export class Rival {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.box = root.querySelector(".ouro-rival");
    this.count = root.querySelector(".ouro-rival-count");
    this.text = foreign(root.querySelector(".ouro-rival-text"));
    this.clear();
  }

  clear() {
    /** @type {string[]} */
    this.texts = [];
    /** @type {number[]} the second at which each token was there */
    this.seconds = [];
    /** @type {number} */
    this.written = -1;
    this.box.hidden = true;
  }

  /** @param {{ texts: string[], seconds: number[] }} plain */
  begin({ texts, seconds }) {
    Object.assign(this, { texts, seconds, written: -1 });
    this.box.hidden = false;
  }

  /**
   * Show the text as far as it was written after some seconds.
   * @param {number} seconds
   */
  show(seconds) {
    const written = this.seconds.filter((end) => end <= seconds + 1e-6).length;
    if (this.box.hidden || written === this.written) return;
    this.written = written;
    this.text.textContent = this.texts.slice(0, written).join("");
    this.count.textContent = `${written} of ${this.texts.length} tokens after ${Math.min(
      seconds,
      this.seconds.at(-1),
    ).toFixed(2)} s`;
    this.text.scrollTop = this.text.scrollHeight;
  }
}
