// @ts-check
// The rail of the lessons: a stretch for each chapter, filled as far as it was read. Arrow keys,
// Home and End move along it.
import { make } from "../kit/dom.js";

export class Rail {
  /**
   * @param {HTMLElement} list
   * @param {string[]} titles
   * @param {(chapter: number) => void} go  opens a chapter
   */
  constructor(list, titles, go) {
    this.list = list;
    this.buttons = titles.map((title, n) => {
      const item = make("li"),
        button = make("button", "ouro-learn-chapter"),
        track = make("i", "ouro-rail-track");
      button.type = "button";
      button.title = title;
      track.append(make("i"));
      button.append(track, make("span", "ouro-rail-title", title));
      button.addEventListener("click", () => go(n));
      button.addEventListener("keydown", (event) => this.key(event, n));
      item.append(button);
      list.append(item);
      return button;
    });
    list.style.setProperty("--chapters", String(titles.length));
  }

  /**
   * @param {KeyboardEvent} event
   * @param {number} n
   */
  key(event, n) {
    const last = this.buttons.length - 1;
    /** @type {Record<string, number>} */
    const targets = {
      ArrowRight: n + 1,
      ArrowDown: n + 1,
      ArrowLeft: n - 1,
      ArrowUp: n - 1,
      Home: 0,
      End: last,
    };
    const to = targets[event.key];
    if (to === undefined || !this.buttons[to]) return;
    this.rove(to);
    this.buttons[to].focus();
    event.preventDefault();
  }

  /** @param {number} to */
  rove(to) {
    this.buttons.forEach((button, n) => (button.tabIndex = n === to ? 0 : -1));
  }

  /**
   * @param {number} here  the open chapter
   * @param {number} share  the share of it that was read
   * @param {(chapter: number) => boolean} done  whether its question was answered
   */
  show(here, share, done) {
    this.rove(here);
    this.buttons.forEach((button, n) => {
      button.parentElement.toggleAttribute("data-here", n === here);
      if (n === here) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
      button.toggleAttribute("data-done", done(n));
      button.querySelector("i i").style.width =
        (done(n) ? 100 : n === here ? 100 * share : n < here ? 100 : 0) + "%";
    });
  }
}
