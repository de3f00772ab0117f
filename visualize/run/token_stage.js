// @ts-check
// A run at a moment: the timeline moves the text, the tree and the charts' cursor together, and a
// token's card is in front of them.
import { fill, tell } from "../kit/dom.js";
import { markShown } from "../kit/shown_tokens.js";
import { Rival } from "./rival.js";
import { StepCharts } from "./step_charts.js";
import { Timeline } from "./timeline.js";
import { TokenCard } from "./token_card.js";
import { TokenFacts } from "./token_facts.js";
import { TokenInput } from "./token_input.js";
import { describeStep, Legend } from "./token_summary.js";
import { REJECTED, TokenText } from "./token_text.js";
import { TreeView } from "./tree_view.js";
/** @import { Facts, Listen, Looks, Step } from "../kit/types" */

const ASIDE_EVERY_MS = 100;
const NARROWEST_COLUMN = 280; // pixels
let stages = 0; // there may be several on a page

export class TokenStage {
  /**
   * @param {HTMLElement} root
   * @param {Looks} looks
   * @param {string} library  the address of Plotly
   * @param {import("./token_status.js").TokenStatus} status
   * @param {import("./terms.js").Terms} terms
   * @param {Listen} listen
   * @param {(token: HTMLElement, facts: Facts) => void} chosen  called when a token of the text is
   *   chosen
   */
  constructor(root, looks, library, status, terms, listen, chosen) {
    this.root = root;
    this.status = status;
    this.terms = terms;
    this.chosen = chosen;
    /** @type {string | null} */
    this.run = null;
    this.asked = "";
    this.blind = false; // nobody looks on while a lesson moves a run
    this.drawn = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.due = undefined;
    this.atEnd = true;
    this.scrolled = 0;
    this.whole = false; // the text is in columns if it is seen as a whole there
    this.listen = listen;
    this.container = this.part("text");
    this.part("card").id = "ouro-card-" + ++stages;
    this.text = new TokenText(this.container);
    this.card = new TokenCard(this.part("card"), root, looks, (locked) => this.restore(locked));
    this.facts = new TokenFacts(this.text, (step) => this.jump(step));
    this.tree = new TreeView(this.part("tree"), looks, (node, under) =>
      this.card.show(this.facts.node(this.tree.step, node), under, true),
    );
    this.rival = new Rival(root);
    const acts = {
      preview: (/** @type {number | null} */ step) => this.peek(step),
      jump: (/** @type {number} */ step) => this.timeline.goToStep(step),
      select: (/** @type {number} */ first, /** @type {number} */ last) => this.select(first, last),
    };
    this.charts = new StepCharts(root, looks, library, acts, terms, this.listen);
    this.legend = new Legend(
      root,
      looks,
      (faded) => this.charts.fade(faded),
      (entry, words) => terms.explain(entry, words),
    );
    this.timeline = new Timeline(
      this.part("timeline"),
      this.part("moments"),
      (step, phase) => this.moment(step, phase),
      (seconds) => this.tick(seconds),
    );
    this.hands = new TokenInput(
      root,
      this.container,
      this.card,
      (node) => this.preview(node),
      (node) => this.lock(node),
      this.listen,
    );
    this.container.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.container,
        near = scrollHeight - scrollTop - clientHeight < 60;
      // Only a move upwards leaves the end: the text may have grown since it was scrolled to.
      if (near || scrollTop < this.scrolled) this.atEnd = near;
      this.scrolled = scrollTop;
      this.card.reposition();
    });
    this.part("stage").addEventListener("toggle", () => this.timeline.at >= 0 && this.picture());
    this.listen(document, "ouro:seek", (event) => this.seek(event.detail));
    new ResizeObserver(() => this.fit()).observe(root);
    document.fonts.ready.then(() => this.fit());
  }

  /** Whether the rest of the text is visible behind a moment, as long as the run does not play. */
  get readable() {
    return this.timeline.timer === undefined && !this.root.closest(".ouro-learn");
  }

  /** @param {string} name */
  part(name) {
    return this.root.querySelector(".ouro-" + name);
  }

  /**
   * @param {string} run
   * @param {string} prompt
   * @param {boolean} apart  whether the prompt is a question, not the beginning of the text
   */
  start(run, prompt, apart) {
    this.run = run;
    this.asked = prompt;
    this.atEnd = true;
    this.scrolled = 0;
    this.whole = false;
    this.fit();
    this.hands.stop = null;
    this.text.clear();
    this.timeline.clear();
    this.charts.clear();
    this.legend.clear();
    this.rival.clear();
    for (const name of ["tree", "tree-note", "tour-words"]) this.part(name).replaceChildren();
    this.card.hide();
    if (prompt) this.text.prompt(prompt, apart);
  }

  /**
   * Let timeline, tree and legend follow steps that the text has.
   * @param {Step[]} steps
   */
  grown(steps) {
    const { text, timeline, container } = this;
    timeline.append(steps);
    this.charts.grow(steps);
    if (!timeline.follow) {
      const [step, phase] = timeline.at < 0 ? [-1, 0] : timeline.frames[timeline.at];
      text.show(step, phase);
    } else {
      const last = text.steps.length - 1;
      this.see(last);
      this.count();
      if (!this.card.open) this.note(last, Infinity);
      const since = performance.now() - this.drawn;
      if (since > ASIDE_EVERY_MS) this.aside();
      else this.due ??= setTimeout(() => this.aside(), ASIDE_EVERY_MS - since);
      // measured in a frame, in which the layout is computed anyway
      if (this.atEnd)
        requestAnimationFrame(() => {
          if (this.atEnd) container.scrollTop = this.end; // it may rest at its beginning by now
        });
    }
  }

  /** Return the scroll position at which the text's last line is visible. */
  get end() {
    const { container, text } = this,
      last = [...(text.spans.at(-1)?.getClientRects() || [])].at(-1);
    return last ? text.bottom(last) : container.scrollHeight;
  }

  /** Draw the tree beside a text that is being written; it need not follow every token. */
  aside() {
    clearTimeout(this.due);
    this.due = undefined;
    this.drawn = performance.now();
    this.count();
    if (this.timeline.follow && !this.card.open) this.picture(this.text.steps.length - 1, Infinity);
  }

  /**
   * End a stream, which may complete the last token's text. Whoever followed the text to its end sees
   * its beginning.
   * @param {Step[]} steps
   * @param {boolean} ended
   */
  finish(steps, ended) {
    const last = steps.length && steps[steps.length - 1].tokens.slice(-1)[0],
      shown = [...this.container.querySelectorAll(".ouro-token")].pop();
    if (last && shown && shown.textContent !== last.text) {
      shown.textContent = last.text;
      this.text.steps.at(-1).tokens.at(-1).text = last.text;
    }
    if (ended && shown) shown.dataset.end = "";
    this.aside();
    if (this.atEnd && this.timeline.follow) {
      this.atEnd = false;
      this.container.scrollTop = 0;
    }
  }

  /**
   * Take the seconds of the same steps, measured again.
   * @param {Step[]} steps
   */
  retime(steps) {
    steps.forEach(({ seconds }, n) => (this.text.steps[n].seconds = seconds));
    this.timeline.retime(this.text.steps);
  }

  /**
   * Begin the same run again with other steps of the same text, and stay at the same token.
   * @param {() => void} begin
   * @param {Step[]} steps
   */
  replace(begin, steps) {
    const token = this.timeline.follow ? undefined : this.text.ends[this.shown[0]];
    begin();
    this.text.append(steps);
    this.grown(steps);
    if (token !== undefined) this.seek({ run: this.run, token });
  }

  /** Put a text that is to be seen as a whole in the fewest columns in which it is. */
  fit() {
    const { container } = this;
    const most = this.whole ? Math.floor(container.clientWidth / NARROWEST_COLUMN) : 0;
    for (let columns = 1; columns <= most; columns++) {
      if (columns > 1) container.dataset.columns = String(columns);
      else delete container.dataset.columns;
      const { scrollHeight, clientHeight, scrollWidth, clientWidth } = container;
      if (scrollHeight <= clientHeight && scrollWidth <= clientWidth) return;
    }
    delete container.dataset.columns;
  }

  get shown() {
    return this.timeline.frames[this.timeline.at] || [this.text.steps.length - 1, Infinity];
  }

  /**
   * Let text, tree and charts follow the cursor.
   * @param {number} step
   * @param {number} phase
   */
  moment(step, phase) {
    const { text, timeline } = this;
    if (timeline.timer === undefined) this.part("tour-words").replaceChildren();
    // A token that is only pointed at keeps its card while the run plays.
    if (this.card.locked || timeline.timer === undefined) this.card.hide();
    if (step < 0) text.show(-1, 0);
    this.count(step, phase);
    if (!text.steps[step]) return;
    if (timeline.follow) text.showAll();
    else text.show(step, phase);
    if (!this.card.open) this.picture(step, phase);
    this.follow(step);
    this.hands.rove();
    this.point(step, timeline.seconds, phase > TokenText.depth(text.steps[step]) + 1);
    if (timeline.timer === undefined || this.status.due) this.status.speak(this.words(step, phase));
  }

  /**
   * Report where the charts' cursor is.
   * @param {number} step
   * @param {number} seconds
   * @param {boolean} committed  whether the step is over: its bar does not stand there before
   */
  point(step, seconds, committed = true) {
    const token = this.text.ends[step];
    this.see(step);
    const written = step + Number(committed);
    tell("ouro:cursor", { run: this.run, step: step + 1, written, token, seconds });
  }

  /**
   * Remember what a step has written, if somebody can see it.
   * @param {number} step
   */
  see(step) {
    const shown = !this.blind && this.root.getClientRects().length;
    if (shown)
      markShown(this.asked, this.text.ends[this.readable ? this.text.ends.length - 1 : step]);
  }

  /**
   * Keep the current step visible in the text, without moving the page.
   * @param {number} step
   */
  follow(step) {
    if (this.timeline.led) return; // a tour leaves the beginning of the text in sight
    const { container, text } = this,
      lines = [...text.spans[step].getClientRects()];
    if (!lines.length || container.scrollHeight <= container.clientHeight) return;
    const [top, last] = [lines[0], lines.at(-1)].map((line) => text.place(line)),
      end = last + lines.at(-1).height;
    if (top < container.scrollTop || end > container.scrollTop + container.clientHeight)
      container.scrollTop = Math.min(this.end, top - text.wholeLines(container.clientHeight / 2));
  }

  picture(number = this.shown[0], phase = this.shown[1]) {
    const step = this.text.steps[number];
    if (!step || !this.part("stage").open) return;
    // a visitor is looking at this tree
    if (this.root.dataset.done !== "true" && this.part("tree").querySelector("svg :focus")) return;
    this.tree.show(step, phase);
    this.note(number, phase);
    this.part("windowed").hidden = !step.window && !this.text.steps.some((one) => one.window);
  }

  /**
   * Write a step as a sentence above its tree.
   * @param {number} number
   * @param {number} phase
   */
  note(number, phase) {
    this.terms.introduce(fill(this.part("tree-note"), this.words(number, phase)));
  }

  /**
   * Return a step in a sentence, with its result once the target has judged it.
   * @param {number} number
   * @param {number} phase
   */
  words(number, phase) {
    const step = this.text.steps[number];
    return describeStep(step, !step.nodes.length || phase > TokenText.depth(step));
  }

  /** Count the writers of the tokens up to a moment. */
  count(step = this.shown[0], phase = this.shown[1]) {
    const { text } = this,
      depth = text.steps[step] ? TokenText.depth(text.steps[step]) : Infinity,
      whole = phase > depth + 1;
    const judged = phase > depth && !whole,
      steps = Math.max(0, step + Number(whole));
    const sofar = new Map(text.countsTo(steps, judged));
    this.legend.show(text.order, text.counts, sofar.set(REJECTED, text.rejectedTo(steps, judged)));
  }

  /**
   * Show what has the run's clock.
   * @param {number} seconds
   */
  tick(seconds) {
    this.rival.show(seconds);
  }

  /**
   * Show the tree of a step at which a pointer is, and its tokens, if it may be seen; null if the
   * pointer is at none.
   * @param {number | null} step
   */
  peek(step) {
    this.container.querySelector(".ouro-step[data-peek]")?.removeAttribute("data-peek");
    const [now] = this.shown,
      seen = step !== null && (this.readable || step <= now);
    if (seen) this.text.spans[step].dataset.peek = "";
    if (!this.card.open) this.picture(...(seen ? /** @type {const} */ ([step, Infinity]) : []));
    return seen;
  }

  /**
   * Highlight the tokens of a range of steps; of an empty one, none.
   * @param {number} first
   * @param {number} last
   */
  select(first, last) {
    this.container.toggleAttribute("data-range", last >= first);
    this.text.spans.forEach((span, step) =>
      span.toggleAttribute("data-picked", step >= first && step <= last),
    );
  }

  /**
   * Play a run at the pace of a tour, with its captions, and rest at its best step.
   * @param {{ points: [number, number][], captions: [number, string][] }} tour
   * @param {number} ahead  seconds of playing that have passed already
   */
  lead({ points, captions }, ahead) {
    const { timeline } = this,
      caption = this.part("tour-words");
    timeline.setGrain("token");
    timeline.at = -1;
    timeline.update();
    this.moment(-1, 0);
    this.atEnd = false;
    this.container.scrollTop = 0;
    timeline.play(ahead, {
      length: points.at(-1)[0],
      at(played) {
        const words = captions.findLast(([from]) => from <= played)?.[1] || "";
        if (caption.textContent !== words) fill(caption, words);
        const next = points.findIndex(([end]) => end > played);
        if (next < 0) return points.at(-1)[1];
        const [[from, begun], [to, ended]] = [points[next - 1], points[next]];
        return begun + ((ended - begun) * (played - from)) / (to - from);
      },
      ended: () => {
        timeline.setGrain("commit");
        this.rest(true, { captions });
      },
    });
  }

  /**
   * Rest at the best step, with the beginning of the text in sight if both fit.
   * @param {boolean} beginning  whether the beginning is in sight also if both do not fit
   * @param {{ captions: [number, string][] } | undefined} tour  its last caption is of this step
   */
  rest(beginning = false, tour = undefined) {
    this.container.scrollTop = 0;
    this.atEnd = false; // it stays at the beginning of the text
    if (this.timeline.steps.length) this.timeline.goToStep(this.timeline.best);
    if (beginning) this.container.scrollTop = 0;
    if (tour) fill(this.part("tour-words"), tour.captions.at(-1)[1]);
  }

  /**
   * Show the card of a token under the pointer; the tree shows its step meanwhile.
   * @param {HTMLElement} node
   */
  preview(node) {
    this.stepOf(node);
    this.card.show(this.facts.of(node), node, false);
  }

  /**
   * Move to the step of a token, and keep its card until it is closed.
   * @param {HTMLElement} node
   */
  lock(node) {
    const step = Number(node.dataset.step);
    if (step !== this.shown[0]) this.timeline.goToStep(step);
    this.open(node);
  }

  /**
   * Keep the card of a token until it is closed; tree and charts show its step meanwhile.
   * @param {HTMLElement} node
   */
  open(node) {
    const step = this.stepOf(node);
    this.point(step, this.timeline.ends[step + 1]);
    const facts = this.facts.of(node);
    this.card.show(facts, node, true);
    this.card.uncover();
    if (node.dataset.index !== undefined) this.chosen(node, facts);
  }

  /**
   * Show the tree of a token's step with the token marked, and return the step.
   * @param {HTMLElement} node
   */
  stepOf(node) {
    const step = Number(node.dataset.step),
      [shown, phase] = this.shown;
    this.picture(step, step === shown ? phase : Infinity);
    this.tree.select(Number(node.dataset.node || -1));
    return step;
  }

  /**
   * Take the tree back to the moment of the timeline, and the charts if a card had moved them.
   * @param {boolean} locked
   */
  restore(locked) {
    const [step, phase] = this.shown;
    if (!this.text.steps[step]) return;
    this.picture(step, phase);
    this.tree.select(-1);
    if (locked) this.point(step, this.timeline.seconds);
  }

  /** @param {number} step */
  jump(step) {
    this.timeline.goToStep(step);
    this.hands.stop.focus({ preventScroll: true });
  }

  /** @param {{ run: string, step?: number, token?: number, seconds?: number }} to */
  seek({ run, step, token, seconds }) {
    const { timeline, text } = this;
    if (!text.steps.length || run !== this.run) return;
    if (step !== undefined) timeline.goToStep(step - 1);
    else if (token !== undefined) timeline.goToStep(text.ends.findIndex((end) => end >= token));
    else
      timeline.go(
        Math.max(
          0,
          timeline.frames.findLastIndex((frame) => frame[2] <= seconds + 1e-4),
        ),
      );
  }
}
