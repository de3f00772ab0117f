// @ts-check
// The lessons: chapters of a few stops. Each stop moves the run beside it to a moment and marks what
// its words are about. `props.load` or `server.run` brings a run.
import { counted, make, paragraph, tell } from "../kit/dom.js";
import { recall, store } from "../kit/page_storage.js";
import { mount as mountDice } from "../proof/dice_view.js";
import { mount as mountRun } from "../run/token_view.js";
import { drawFigure } from "./learn_figures.js";
import { lightTogether, linked } from "./learn_links.js";
import { ask } from "./learn_question.js";
import { Rail } from "./learn_rail.js";
import { Share } from "./learn_share.js";
import { residual } from "./residual_picture.js";
import { around, shift, showIn } from "./scrolling.js";
import { mount as mountTheory } from "./theory_view.js";
/** @import { Mount, Props } from "../kit/types" */

const QUIETLY = { preventScroll: true };
const EDGE = 10; // pixels between what is marked and the edges of the window
const SEEN = 40; // pixels of what is marked that show it
const GAMES = ["theory", "dice"]; // figures that are views
const FAILED = "The run of this chapter could not be fetched. Reload the page and try again.";
const ANSWERS = "ouro-answers-"; // and the name of a student
const nothing = () => {};
/**
 * Return the tokens of a text that can be seen.
 * @param {HTMLElement} box
 * @returns {HTMLElement[]}
 */
const written = (box) =>
  [...box.querySelectorAll(".ouro-token, .ouro-rejected")].filter(
    (node) => node.getClientRects().length,
  );

/**
 * The moment that words are about: a step and stage of a run, a card, the elements to mark.
 * @typedef {{ run?: string, at?: { step: number, stage: string } | null, spot?: string,
 *   card?: { step: number, node: number }, figure?: string, aside?: string, curve?: string,
 *   first?: number, sliders?: Record<string, number> }} Focus  first, sliders: with which a picture begins
 */
/**
 * @typedef {{ id: string, title: string, run: string, stops: (Focus & { words: string[] })[],
 *   question: any, figures?: Record<string, { kind: string }>, residual?: any }} Chapter
 */

export class LearnView {
  /**
   * @param {HTMLElement} root
   * @param {Props} props
   * @param {(name: string) => Promise<string>} fetchRun  returns a recorded run by its name, as JSON
   */
  constructor(root, props, fetchRun) {
    const { chapters, questions, end } = JSON.parse(props.value);
    /**
     * @type {{ title: string, lines: string[], next: string, places: { href: string, label: string,
     *   words: string }[], more: string }}
     */
    this.end = end;
    this.root = root;
    this.fetchRun = fetchRun;
    /** @type {Chapter[]} */
    this.chapters = chapters;
    this.chapterNumber = 0;
    this.stopNumber = 0;
    /** @type {Map<string, string | Promise<string>>} runs that were fetched, by name */
    this.runs = new Map();
    /** @type {Map<string, boolean>} whether the first answer of a chapter was right */
    this.done = new Map();
    // `?student=NAME` in the address: the answers stay in this browser, under that name
    this.student = new URLSearchParams(location.search).get("student");
    for (const [id, right] of (this.student && recall(ANSWERS + this.student, true)) || [])
      this.done.set(id, right);
    this.ended = false;
    this.requests = 0; // moments that were asked for: an old one must not be shown
    this.stage = root.querySelector(".ouro-learn-run");
    // as in learn.css: the words are a sheet at the lower edge
    this.narrow = matchMedia("(max-width: 900px)");
    this.beside = matchMedia("(min-width: 1200px) and (pointer: fine)"); // where a card is
    this.mountViews(props);
    /** @type {Map<number, number>} the stop at which a chapter was left, by its number */
    this.left = new Map();
    const titles = this.chapters.map((chapter) => chapter.title);
    this.rail = new Rail(this.part("list"), titles, (number) => this.reopen(number));
    this.share = new Share(root, this.chapters, props.place || "", (chapter, stop) =>
      this.go(chapter, stop),
    );
    this.listen();
    this.drawQuestions(questions);
    const { chapter, stop } = this.share.named();
    this.go(Math.max(0, chapter), stop);
  }

  /** @param {string} name */
  part(name) {
    return this.root.querySelector(".ouro-learn-" + name);
  }

  /**
   * Mount the run, the theory and the dice, which stops show.
   * @param {Props} props
   */
  mountViews({ looks, plotly }) {
    this.runProps = /** @type {Props} */ ({ value: null, looks, plotly });
    this.showRun = nothing;
    mountRun(this.stage, this.runProps, (_, changed) => (this.showRun = changed), nothing);
    mountTheory(this.part("theory"), { value: null, looks, plotly }, nothing, nothing);
    mountDice(this.part("dice"), { value: null });
  }

  listen() {
    const pictures = [this.part("stage"), this.part("residual")];
    lightTogether(this.root, this.part("words"), pictures);
    this.part("fold").addEventListener("click", () =>
      this.fold(!this.root.hasAttribute("data-folded")),
    );
    this.part("back").addEventListener("click", () => this.back());
    this.part("next").addEventListener("click", () => this.next());
    document.addEventListener("keydown", (event) => this.key(event));
    this.part("residual").addEventListener("ouro:run", (/** @type {CustomEvent<Focus>} */ event) =>
      this.point({ ...this.chapter.stops[this.stopNumber], ...event.detail }),
    );
    const measure = () => this.measure();
    new ResizeObserver(measure).observe(this.part("text"));
    this.part("body").addEventListener("scroll", measure, { passive: true });
    // at the page's end the sheet is above the questions
    addEventListener("scroll", measure, { passive: true });
  }

  /**
   * Turn a stop by an arrow key, if nothing else on the page uses it.
   * @param {KeyboardEvent} event
   */
  key(event) {
    const at = /** @type {HTMLElement} */ (event.target);
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!this.root.getClientRects().length) return;
    if (at !== document.body && !at.closest(".ouro-learn-text")) return;
    if (at.matches("input")) return; // a slider uses them
    if (event.key === "ArrowRight" && this.usable("next")) this.next();
    else if (event.key === "ArrowLeft" && this.usable("back")) this.back();
    else return;
    event.preventDefault();
  }

  /** @param {{ words: string, chapter: number, stop: number, answer: string }[]} questions */
  drawQuestions(questions) {
    this.part("questions").querySelector("summary").textContent =
      `${counted(questions.length, "review question")} with answers, on all chapters`;
    for (const { words, chapter, stop, answer } of questions) {
      const item = make("li"),
        fold = make("details"),
        title = `Chapter ${chapter + 1}: ${this.chapters[chapter].title}`,
        link = make("button", "ouro-learn-link", title);
      link.type = "button";
      link.addEventListener("click", () => this.go(chapter, stop));
      fold.append(linked(make("summary", "ouro-press", words)), linked(paragraph(answer)), link);
      item.append(fold);
      this.part("ten").append(item);
    }
  }

  get chapter() {
    return this.chapters[this.chapterNumber];
  }

  /** The number of the question, which comes behind the last stop. */
  get questionNumber() {
    return this.chapter.stops.length;
  }

  /**
   * Return whether a question is on screen.
   * @param {any} question
   */
  asks(question) {
    return this.chapter.question === question && this.stopNumber === this.questionNumber;
  }

  /** @param {boolean} right */
  answered(right) {
    if (!this.done.has(this.chapter.id)) this.done.set(this.chapter.id, right);
    if (this.student) store(ANSWERS + this.student, [...this.done], true);
    this.drawRail();
  }

  /**
   * Return a run, or the promise of a run that is on its way. A run that failed is fetched again.
   * @param {string} name
   */
  runOf(name) {
    if (!this.runs.has(name)) {
      const run = this.fetchRun(name);
      this.runs.set(name, run);
      run.then(
        (value) => this.runs.set(name, value),
        () => this.runs.delete(name),
      );
    }
    return this.runs.get(name);
  }

  /**
   * Hide a sheet of words, until the next stop.
   * @param {boolean} away
   */
  fold(away) {
    this.root.toggleAttribute("data-folded", away);
    this.part("fold").textContent = away ? "Show words" : "Hide words";
    this.part("fold").setAttribute("aria-expanded", String(!away));
    this.measure();
  }

  /**
   * @param {number} chapter
   * @param {number} stop
   */
  async go(chapter, stop = 0) {
    this.left.set(this.chapterNumber, this.stopNumber % this.questionNumber);
    this.chapterNumber = chapter;
    this.stopNumber = stop;
    await this.drawStop();
  }

  /**
   * Open a chapter where it was left; the open one, and one that was read to its question, at its
   * beginning.
   * @param {number} chapter
   */
  reopen(chapter) {
    return this.go(chapter, chapter === this.chapterNumber ? 0 : this.left.get(chapter));
  }

  back() {
    if (this.ended) return this.drawStop();
    if (this.stopNumber) {
      this.stopNumber -= 1;
      return this.turn("back");
    }
    const before = this.chapterNumber - 1;
    return this.go(before, this.chapters[before].stops.length);
  }

  next() {
    if (this.stopNumber < this.questionNumber) {
      this.stopNumber += 1;
      return this.turn("next");
    }
    if (this.chapterNumber + 1 < this.chapters.length) return this.go(this.chapterNumber + 1);
    if (!this.ended) return this.finish();
    this.part("questions").open = true;
    return this.part("questions").scrollIntoView({ block: "start" });
  }

  /** Show what to remember, where to go, and the score of the questions. */
  finish() {
    this.ended = true;
    this.root.dataset.ended = "";
    const list = make("ol", "ouro-learn-lines");
    list.append(...this.end.lines.map((text) => linked(make("li", "", text))));
    this.part("title").textContent = this.end.title;
    this.part("position").textContent = "The end";
    this.part("words").replaceChildren(list);
    for (const name of ["answer", "residual", "figure"]) this.part(name).replaceChildren();
    for (const name of GAMES) this.part(name).hidden = true;
    this.stage.hidden = true;
    this.drawOnward();
    this.part("next").textContent = "Review questions";
    this.part("body").scrollTop = 0;
    this.toTop();
    this.reveal([]);
  }

  /** Show where to go and the score, to a student with the mark of each question, in place of a
   * picture. */
  drawOnward() {
    const places = make("ul", "ouro-list");
    for (const { href, label, words } of this.end.places) {
      const item = make("li"),
        link = make("a", "", label);
      link.href = href;
      item.append(link, paragraph(words));
      places.append(item);
    }
    const marks = make("ul", "ouro-learn-marks ouro-list");
    for (const { id, title } of this.student ? this.chapters : []) {
      const mark = this.done.has(id) ? (this.done.get(id) ? "✓" : "✗") : "–";
      marks.append(make("li", "", `${mark} ${title}`));
    }
    const right = [...this.done.values()].filter(Boolean).length;
    const score =
      (this.student ? `${this.student}. ` : "") +
      `Questions at the ends of the chapters: ${this.done.size} of ${this.chapters.length} answered, ` +
      `${right} right at the first try.`;
    const more = this.end.more ? [paragraph(this.end.more)] : [];
    const onward = this.part("onward");
    const last = [make("p", "ouro-learn-score", score), marks];
    onward.replaceChildren(make("h3", "", this.end.next), places, ...more, ...last);
    onward.hidden = false;
  }

  /** Begin with the page's menu in sight, however far the stop before was scrolled. */
  toTop() {
    if (this.root.getClientRects().length) scrollTo({ top: 0, behavior: "instant" });
  }

  /**
   * Draw the stop after a button was pressed. If that button is gone by then, the other one gets
   * the focus.
   * @param {"back" | "next"} name
   */
  turn(name) {
    const pressed = document.activeElement === this.part(name);
    const drawn = this.drawStop();
    if (pressed && !this.usable(name)) this.part(name === "next" ? "back" : "next").focus(QUIETLY);
    return drawn;
  }

  /**
   * Return whether a button can be pressed: a chapter alone has nothing behind its end, and the
   * first chapter nothing before it.
   * @param {"back" | "next"} name
   */
  usable(name) {
    return this.part(name).offsetParent && !this.part(name).disabled;
  }

  onward() {
    return this.part(this.usable("next") ? "next" : "back");
  }

  /** Show where the reader is, and which questions are answered. */
  drawRail() {
    const share = (this.stopNumber + 1) / (this.questionNumber + 1);
    this.rail.show(this.chapterNumber, share, (n) => this.done.has(this.chapters[n].id));
    showIn(this.part("list"), [this.part("list").querySelector("[data-here]")]);
  }

  async drawStop() {
    const { chapter } = this,
      stop = chapter.stops[this.stopNumber];
    this.requests += 1;
    delete this.root.dataset.ended;
    this.part("onward").hidden = true;
    this.part("status").textContent = "";
    this.fold(false);
    this.drawRail();
    this.share.at(chapter, this.stopNumber);
    this.drawWords(stop);
    /** @type {Focus} */
    const focus = stop ? stop : { at: null, ...chapter.question.focus };
    this.drawFigures(focus);
    this.toTop();
    if (!stop) await ask(this, chapter.question);
    if (stop || chapter.question.kind !== "predict") await this.point(focus);
    this.root.dataset.at = this.chapterNumber + "." + this.stopNumber;
  }

  /**
   * Draw title, words and buttons of a stop, or of the chapter's question.
   * @param {{ words: string[] } | undefined} stop
   */
  drawWords(stop) {
    const { chapter } = this,
      last = this.chapterNumber + 1 === this.chapters.length,
      words = stop ? stop.words : chapter.question.words;
    this.part("title").textContent = chapter.title;
    this.part("position").textContent = stop
      ? `${this.stopNumber + 1} of ${this.questionNumber}`
      : "A question";
    this.part("words").replaceChildren(
      ...words.map((/** @type {string} */ text) => linked(paragraph(text))),
    );
    this.part("answer").replaceChildren();
    this.part("body").scrollTop = 0;
    this.part("back").disabled = !this.chapterNumber && !this.stopNumber;
    this.ended = false;
    this.part("next").disabled = false; // until there is a stop, a click would be lost
    this.part("next").textContent = stop ? "Next" : last ? "To the end" : "Next chapter";
    this.part("next").toggleAttribute("data-last", !stop && last);
  }

  /**
   * Show the picture of a stop in place of the run, if it has one.
   * @param {Focus} focus
   */
  drawFigures(focus) {
    for (const name of GAMES) this.part(name).hidden = focus.figure !== name;
    this.part("theory").dataset.curve = focus.curve || "";
    if (focus.sliders && focus.figure === "theory") tell("ouro:theory", focus.sliders);
    const data = (this.chapter.figures || {})[focus.figure];
    this.part("figure").replaceChildren(...(data ? [drawFigure(focus.figure, data, focus)] : []));
    this.stage.hidden = GAMES.includes(focus.figure) || Boolean(data);
    this.part("residual").replaceChildren(
      ...(focus.figure === "residual" ? [residual(this.chapter.residual)] : []),
      ...(focus.aside ? [drawFigure(focus.aside, this.chapter.figures[focus.aside])] : []),
    );
  }

  /**
   * Move the run to a moment and mark what the words are about.
   * @param {Focus} focus
   */
  async point(focus) {
    const request = ++this.requests,
      { stage } = this;
    const coming = this.runOf(focus.run || this.chapter.run);
    if (coming instanceof Promise) this.part("status").textContent = "Fetching the run …";
    stage.toggleAttribute("data-waiting", coming instanceof Promise); // it still shows another run
    const run = await Promise.resolve(coming).catch(/** @returns {string | null} */ () => null);
    if (this.requests !== request) return; // the reader has moved on meanwhile
    this.part("status").textContent = run ? "" : FAILED;
    if (!run) return;
    stage.removeAttribute("data-waiting");
    // before the run is drawn: a mark may hide parts of it
    for (const node of this.root.querySelectorAll("[data-spot]")) node.removeAttribute("data-spot");
    this.runProps.value = run;
    const shown = stage.ouroboros;
    shown.unseen(() => {
      this.showRun();
      shown.hideCard();
      if (focus.at) shown.moment(focus.at.step, focus.at.stage);
    });
    if (focus.at && !stage.hidden) shown.see(focus.at.step);
    let height = 0;
    if (focus.card) {
      this.measure();
      shown.card(focus.card.step, focus.card.node);
      height = this.beside.matches ? 0 : stage.querySelector(".ouro-card").offsetHeight;
    }
    const spots = this.spotsOf(focus);
    for (const node of spots) {
      node.setAttribute("data-spot", this.endOf(node, spots));
      const fold = node.closest("details");
      if (fold) fold.open = true;
    }
    if (focus.card) {
      this.reveal([...stage.querySelectorAll("[data-open]")], height);
      shown.repositionCard();
    }
    this.reveal(spots);
  }

  /**
   * Return the elements to mark: parts of the run, or the picture in its place.
   * @param {Focus} focus
   * @returns {HTMLElement[]}
   */
  spotsOf(focus) {
    if (focus.spot && !this.stage.hidden)
      return [...this.stage.querySelectorAll(focus.spot)].flatMap((node) =>
        node.classList.contains("ouro-step") ? written(node) : [node],
      );
    if (GAMES.includes(focus.figure)) return [this.part(focus.figure)];
    return this.stage.hidden ? [this.part("figure")] : [];
  }

  /**
   * Return which ends of a ring an element of the text has: tokens behind each other have one ring.
   * @param {HTMLElement} node
   * @param {HTMLElement[]} spots
   */
  endOf(node, spots) {
    const tokens = written(this.stage.querySelector(".ouro-text")),
      at = tokens.indexOf(node);
    if (at < 0) return "";
    const ends = spots.includes(tokens[at - 1]) ? [] : ["first"];
    if (!spots.includes(tokens[at + 1])) ends.push("last");
    return ends.join(" ");
  }

  /** Return the height of the page's tabs at the lower edge, below a sheet of words. */
  navHeight() {
    const height = getComputedStyle(this.root).getPropertyValue("--ouro-nav");
    return (this.narrow.matches && parseFloat(height)) || 0;
  }

  /** Tell the styles how high a sheet of words is, and how far below the page's top the words begin. */
  measure() {
    const sheet = this.part("text"),
      high = document.documentElement.clientHeight;
    const covered = Math.max(
      sheet.offsetHeight + this.navHeight(),
      sheet.offsetHeight && high - sheet.getBoundingClientRect().top,
    );
    this.root.style.setProperty("--ouro-sheet", (this.narrow.matches ? covered : 0) + "px");
    const above = this.part("main").getBoundingClientRect().top + scrollY;
    this.root.style.setProperty("--ouro-above", above + "px");
    const { scrollHeight, scrollTop, clientHeight } = this.part("body");
    this.part("body").toggleAttribute("data-more", scrollHeight - scrollTop - clientHeight > 4);
  }

  revealSpots() {
    this.reveal([...this.stage.querySelectorAll("[data-spot]")]);
  }

  /**
   * Scroll so that the words and the marked elements are visible together.
   * @param {HTMLElement[]} nodes
   * @param {number} below  pixels that must stay free below them
   */
  reveal(nodes, below = 0) {
    this.measure();
    const [first] = nodes,
      words = this.part("text"),
      card = this.stage.querySelector(".ouro-locked");
    for (const box of this.stage.querySelectorAll(".ouro-text, .ouro-tree"))
      if (box !== first && first && box.contains(first)) showIn(box, nodes);
    const lowest = document.documentElement.clientHeight - this.navHeight(),
      all = around(nodes);
    const top = EDGE + (this.narrow.matches ? this.part("rail").offsetHeight : 0);
    const sheet = card && card !== first && getComputedStyle(card).position === "fixed";
    const covered =
      (this.narrow.matches ? words.offsetHeight : 0) + (sheet ? card.offsetHeight : 0);
    const bottom = lowest - EDGE - covered;
    // on a wide page the menu stays in sight if what is marked begins in sight
    const begun = all && all.first.top >= top && all.first.top + SEEN <= bottom;
    if (all && (below || this.narrow.matches || !begun)) {
      const by = shift(all.top, all.bottom + (sheet ? 0 : below), top, bottom);
      scrollBy({ top: by, behavior: "instant" });
    }
    const cut = words.getClientRects().length && words.getBoundingClientRect().bottom - lowest;
    if (cut > 0) scrollBy({ top: Math.ceil(cut), behavior: "instant" });
    this.measure();
  }
}

/** @type {Mount} */
export function mount(element, props, watch, trigger, server) {
  const fetchRun = async (/** @type {string} */ name) =>
    props.load ? JSON.stringify(await props.load(name)) : server.run({ name });
  new LearnView(element.querySelector(".ouro-learn"), props, fetchRun);
}
