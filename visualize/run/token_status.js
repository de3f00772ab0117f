// What a run says of itself: badge, title and status, and the line that is read out; and that it is
// the old one, while another
// one was asked for and the server has not answered yet.
import { fill } from "../kit/dom.js";

const SPEAK_EVERY_MS = 5000;

export class TokenStatus {
  constructor(root) {
    const [badge, title, line, said] = ["badge", "title", "status", "said"].map((name) =>
      root.querySelector(".ouro-" + name),
    );
    Object.assign(this, { root, badge, title, line, said, old: null, spoken: 0 });
    Object.assign(this, { named: "", words: "" }); // badge and line, which a browser may translate
  }

  show({ badge, title }) {
    if (badge !== undefined) this.badge.textContent = this.badge.title = this.named = badge;
    if (title !== undefined) this.title.textContent = title;
  }

  get due() {
    return Date.now() - this.spoken > SPEAK_EVERY_MS;
  }

  speak(words) {
    this.spoken = Date.now();
    this.said.textContent = words;
  }

  announce(words, now) {
    this.words = words;
    fill(this.line, words);
    if (now || this.due) this.speak(words);
  }

  // Another run was asked for: until the server answers, what is shown is the one before it.
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

  // It has come to nothing.
  restore() {
    this.badge.textContent = this.old.badge;
    this.announce(this.old.status, true);
    this.renew();
  }
}
