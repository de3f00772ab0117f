// @ts-check
// A run's badge, title and status, the line that is read out, and the mark of an old run while the
// server has not answered yet.
import { fill } from "../kit/dom.js";

const SPEAK_EVERY_MS = 5000;

export class TokenStatus {
  /** @param {HTMLElement} root */
  constructor(root) {
    const [badge, title, line, said] = ["badge", "title", "status", "said"].map((name) =>
      root.querySelector(".ouro-" + name),
    );
    this.root = root;
    this.badge = badge;
    this.title = title;
    this.line = line;
    this.said = said;
    /** @type {{ badge: string, status: string } | null} */
    this.old = null;
    this.spoken = 0;
    // badge and line as they were sent: a browser may translate them
    this.named = "";
    this.words = "";
  }

  /** @param {{ badge?: string, title?: string }} value */
  show({ badge, title }) {
    if (badge !== undefined) this.badge.textContent = this.badge.title = this.named = badge;
    if (title !== undefined) this.title.textContent = title;
  }

  get due() {
    return Date.now() - this.spoken > SPEAK_EVERY_MS;
  }

  /** @param {string} words */
  speak(words) {
    this.spoken = Date.now();
    this.said.textContent = words;
  }

  /**
   * @param {string} words
   * @param {boolean} now
   */
  announce(words, now) {
    this.words = words;
    fill(this.line, words);
    if (now || this.due) this.speak(words);
  }

  /** Mark the shown run as the one before, until the server answers. */
  age() {
    this.old = { badge: this.named, status: this.words };
    this.root.dataset.old = "";
    this.badge.textContent = "the run before";
    this.announce("Starting … Below is the run before.", true);
  }

  renew() {
    delete this.root.dataset.old;
    this.old = null;
  }

  /** Show the run again: the request has failed. */
  restore() {
    this.badge.textContent = this.old.badge;
    this.announce(this.old.status, true);
    this.renew();
  }
}
