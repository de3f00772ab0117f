// @ts-check
// One chapter alone: its address, a frame that puts it into another page, and full screen. The
// static site's page with ?embed is such a frame: it shows one chapter and reports its height to
// the page around it.
import { make } from "../kit/dom.js";

const HEIGHT = 820; // pixels that most stops need on a wide page
const SITE = "https://ADDRESS-OF-THE-STATIC-SITE/index.html"; // "make static" writes it
const ON_PAGE =
  'The frame is a page of the static site, which "make static" writes: put that on any web ' +
  "server. The frame tells its height; how to follow it is in the manual, For teachers.";
const ON_SITE =
  "The frame tells the page around it its height, by a message: data.ouroboros names the chapter, " +
  "data.height is the height in pixels.";

/** Return the query of this page without `embed`, as `?student=NAME`. */
function whole() {
  const query = new URLSearchParams(location.search);
  query.delete("embed");
  return String(query) && `?${query}`;
}

/** @typedef {{ id: string, title: string, stops: object[] }} Chapter */
export class Share {
  /**
   * @param {HTMLElement} root
   * @param {Chapter[]} chapters
   * @param {string} place  the text before a chapter's id in the address, such as "learn/"
   * @param {(chapter: number, stop: number) => void} go  opens a stop of a chapter
   */
  constructor(root, chapters, place, go) {
    this.root = root;
    this.chapters = chapters;
    this.place = place;
    this.embedded = new URLSearchParams(location.search).has("embed");
    /** @type {string | undefined} the id of the open chapter */
    this.shown = undefined;
    this.stop = 0;
    this.filled = false;
    this.build();
    this.alone(this.embedded);
    if (this.embedded) new ResizeObserver(() => this.report()).observe(root);
    addEventListener("popstate", () => {
      const { chapter, stop } = this.named();
      if (chapter < 0)
        this.leave(); // another tab of the page; full screen hides the tabs
      else if (this.chapters[chapter].id !== this.shown || stop !== this.stop) go(chapter, stop);
    });
    document.addEventListener(
      "fullscreenchange",
      () => document.fullscreenElement || this.alone(this.embedded),
    );
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.leave());
  }

  build() {
    const bar = make("div", "ouro-share ouro-wrap"),
      fold = make("details"),
      box = make("div", "ouro-share-box");
    this.link = this.field(box, "Link to this chapter", "input");
    this.frame = this.field(box, "Frame for another page", "textarea");
    box.append(make("p", "ouro-small", this.place ? ON_PAGE : ON_SITE));
    fold.append(make("summary", "", "Link or embed this chapter"), box);
    this.full = make("button", "ouro-share-full", "Full screen");
    this.full.type = "button";
    this.full.hidden = document.fullscreenEnabled === false;
    this.full.addEventListener("click", () => this.toggle());
    this.whole = make("a", "ouro-share-whole", "All lessons");
    this.whole.target = "_blank";
    this.whole.rel = "noopener";
    bar.append(this.full, fold, this.whole);
    this.root.insertBefore(bar, this.root.querySelector(".ouro-learn-questions"));
  }

  /**
   * @template {"input" | "textarea"} Tag
   * @param {HTMLElement} box
   * @param {string} label
   * @param {Tag} tag
   */
  field(box, label, tag) {
    const around = make("label", "", label),
      text = make(tag, "ouro-share-text ouro-bordered");
    text.readOnly = true;
    text.addEventListener("focus", () => text.select());
    around.append(text);
    box.append(around);
    return text;
  }

  /** Return the chapter and stop that the address names, as in `#guess/3`; -1 for no chapter. */
  named() {
    const path = location.hash.startsWith("#" + this.place)
      ? location.hash.slice(1 + this.place.length)
      : "";
    const [id, stop] = path.split("/"),
      chapter = this.chapters.findIndex((one) => one.id === id),
      last = chapter < 0 ? 0 : this.chapters[chapter].stops.length;
    return { chapter, stop: Math.max(0, Math.min(last, Math.trunc(Number(stop) || 1) - 1)) };
  }

  /**
   * A stop of a chapter is open: write it into the address, if that is the address of the lessons.
   * A chapter is a place in the history, its stops are not.
   * @param {Chapter} chapter
   * @param {number} stop
   */
  at({ id, title }, stop) {
    const before = this.shown,
      chapter = "#" + this.place + id,
      here = chapter + (stop ? `/${stop + 1}` : "");
    this.shown = id;
    this.stop = stop;
    const lessons = this.place
      ? location.hash.split("/")[0] === "#" + this.place.slice(0, -1)
      : true;
    if (lessons && (before || this.named().chapter >= 0) && location.hash !== here) {
      const write = before && before !== id ? "pushState" : "replaceState";
      history[write](history.state, "", location.pathname + location.search + here);
    }
    const site =
      this.place || location.protocol === "file:" ? SITE : location.origin + location.pathname;
    this.link.value =
      location.origin === "null" || location.protocol === "file:"
        ? site + "#" + id
        : location.origin + location.pathname + chapter;
    this.frame.value =
      `<iframe src="${site}?embed#${id}" title="Ouroboros: ` +
      `${title.replace(/["<>&]/g, "")}" width="100%" height="${HEIGHT}" style="border: 0" ` +
      `allow="fullscreen" loading="lazy"></iframe>`;
    this.whole.href = location.pathname + whole() + here;
    this.report();
  }

  report() {
    if (this.embedded && parent !== self)
      parent.postMessage(
        {
          ouroboros: this.shown,
          height: Math.ceil(this.root.getBoundingClientRect().bottom + scrollY) + 16,
        },
        "*",
      );
  }

  /**
   * Show nothing but the lessons, as full screen and a frame do.
   * @param {boolean} yes
   */
  alone(yes) {
    document.documentElement.toggleAttribute("data-ouro-alone", yes);
    document.documentElement.toggleAttribute("data-ouro-embed", this.embedded);
    const full = yes && !(this.embedded && !document.fullscreenElement);
    this.filled = full;
    this.full.textContent = full ? "Leave full screen" : "Full screen";
    this.whole.hidden = !this.embedded;
  }

  async leave() {
    if (document.fullscreenElement) await document.exitFullscreen();
    this.alone(this.embedded);
  }

  /**
   * Enter or leave full screen. If the browser refuses it, as phones and some frames do, the
   * lessons fill the window.
   */
  async toggle() {
    if (this.filled) return this.leave();
    const page = document.documentElement;
    await (page.requestFullscreen ? page.requestFullscreen().catch(() => {}) : null);
    this.alone(true);
    if (this.embedded && !document.fullscreenElement) this.full.hidden = true;
    return scrollTo({ top: 0, behavior: "instant" });
  }
}
