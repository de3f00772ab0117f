// A run at a moment: the timeline moves the text, the tree and the charts' cursor together, and a
// token's card stands before them.
import { fill, listening, tell } from "../kit/dom.js";
import { markShown } from "../kit/shown_tokens.js";
import { Timeline } from "./timeline.js";
import { TokenCard } from "./token_card.js";
import { TokenFacts } from "./token_facts.js";
import { TokenInput } from "./token_input.js";
import { describeStep, drawLegend, drawMark } from "./token_summary.js";
import { TokenText } from "./token_text.js";
import { TreeView } from "./tree_view.js";

const ASIDE_EVERY_MS = 250;
let stages = 0; // there may be several on a page

export class TokenStage {
  // root: of the view; looks: by their keys; status: a TokenStatus; chosen(node, facts) is called
  // where a token of the text is chosen.
  constructor(root, looks, status, chosen) {
    Object.assign(this, {
      root,
      looks,
      status,
      chosen,
      run: null,
      asked: "",
      blind: false, // nobody looks on while a lesson moves a run
      drawn: 0,
      atEnd: true,
      listen: listening(root),
    });
    this.container = this.part("text");
    this.part("card").id = "ouro-card-" + ++stages;
    this.text = new TokenText(this.container);
    this.card = new TokenCard(this.part("card"), root, looks, (locked) => this.restore(locked));
    this.facts = new TokenFacts(this.text, (step) => this.jump(step));
    this.tree = new TreeView(this.part("tree"), looks, (node, under) =>
      this.card.show(this.facts.node(this.tree.step, node), under, true),
    );
    this.timeline = new Timeline(this.part("timeline"), (step, phase) => this.moment(step, phase));
    this.hands = new TokenInput(
      root,
      this.container,
      this.card,
      (node) => this.preview(node),
      (node) => this.lock(node),
      this.listen,
    );
    this.container.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.container;
      this.atEnd = scrollHeight - scrollTop - clientHeight < 60;
      this.card.reposition();
    });
    this.part("stage").addEventListener("toggle", () => this.timeline.at >= 0 && this.picture());
    this.listen(document, "ouro:seek", (event) => this.seek(event.detail));
  }

  part(name) {
    return this.root.querySelector(".ouro-" + name);
  }

  // apart: whether the prompt is a question, not the beginning of the text.
  start(run, prompt, apart) {
    Object.assign(this, { run, asked: prompt, atEnd: true });
    this.hands.stop = null;
    this.text.clear();
    this.timeline.clear();
    for (const name of ["legend", "tree", "tree-note"]) this.part(name).replaceChildren();
    this.card.hide();
    if (prompt) this.text.prompt(prompt, apart);
  }

  // Called once the text has these steps: timeline, tree and legend follow.
  grown(steps) {
    const { text, timeline, container } = this;
    timeline.append(steps);
    if (!timeline.follow) {
      if (timeline.at >= 0) text.show(...timeline.frames[timeline.at]);
      else text.show(-1, 0);
    } else {
      this.see(text.steps.length - 1);
      if (performance.now() - this.drawn > ASIDE_EVERY_MS) this.aside();
      // measured where it is laid out anyway
      if (this.atEnd) requestAnimationFrame(() => (container.scrollTop = this.end));
    }
  }

  // Where the text is scrolled to so that its last line is seen.
  get end() {
    const { container, text } = this,
      last = [...(text.spans.at(-1)?.getClientRects() || [])].at(-1);
    return last ? text.bottom(last) : container.scrollHeight;
  }

  // What stands beside a text that is being written; it need not keep up with every token.
  aside() {
    this.drawn = performance.now();
    this.legend();
    if (this.timeline.follow && !this.card.open) this.picture(this.text.steps.length - 1, Infinity);
  }

  // The end of a stream may complete the last token's text.
  finish(steps, ended) {
    const last = steps.length && steps[steps.length - 1].tokens.slice(-1)[0],
      shown = [...this.container.querySelectorAll(".ouro-token")].pop();
    if (last && shown && shown.textContent !== last.text) {
      shown.textContent = last.text;
      this.text.steps.at(-1).tokens.at(-1).text = last.text;
    }
    if (ended && shown) shown.dataset.end = "";
    this.aside();
  }

  get shown() {
    return this.timeline.frames[this.timeline.at] || [this.text.steps.length - 1, Infinity];
  }

  // The cursor has moved: text, tree and charts follow.
  moment(step, phase) {
    const { text, timeline } = this;
    // It is of another moment; a token that is only pointed at keeps it while the run plays.
    if (this.card.locked || timeline.timer === undefined) this.card.hide();
    if (step < 0) text.show(-1, 0);
    this.legend(step, phase);
    if (!text.steps[step]) return;
    if (timeline.follow) text.showAll();
    else text.show(step, phase);
    if (!this.card.open) this.picture(step, phase);
    this.follow(step);
    this.hands.rove();
    this.point(step, timeline.seconds);
    if (timeline.timer === undefined || this.status.due) this.status.speak(this.words(step, phase));
  }

  // Where the charts' cursor stands.
  point(step, seconds) {
    const token = this.text.ends[step];
    this.see(step);
    tell("ouro:cursor", { run: this.run, step: step + 1, token, seconds });
  }

  // What a step has written is known to whoever looks on.
  see(step) {
    const shown = !this.blind && this.root.getClientRects().length;
    if (shown) markShown(this.asked, this.text.ends[step]);
  }

  // Keep the current step in the text's own window, without moving the page.
  follow(step) {
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
    // somebody is looking at this one
    if (this.root.dataset.done !== "true" && this.part("tree").querySelector("svg :focus")) return;
    this.tree.show(step, phase);
    fill(this.part("tree-note"), this.words(number, phase));
    this.part("windowed").hidden = !step.window && !this.text.steps.some((one) => one.window);
  }

  // A step in a sentence; its result once the target has judged it.
  words(number, phase) {
    const step = this.text.steps[number];
    return describeStep(step, !step.nodes.length || phase > TokenText.depth(step));
  }

  // Who wrote the tokens up to a moment.
  legend(step = this.shown[0], phase = this.shown[1]) {
    const { text } = this,
      whole = text.steps[step] && phase > TokenText.depth(text.steps[step]) + 1;
    drawLegend(this.part("legend"), this.looks, text.counts, text.countsTo(step + Number(whole)));
    if (text.marked) drawMark(this.part("legend"));
  }

  // The card of a token that is pointed at; the tree shows its step as long as it is there.
  preview(node) {
    this.stepOf(node);
    this.card.show(this.facts.of(node), node, false);
  }

  // The card of a token stays until it is closed; tree and charts show the token's step meanwhile,
  // the text stays as it is.
  lock(node) {
    const step = this.stepOf(node);
    this.point(step, this.timeline.ends[step + 1]);
    const facts = this.facts.of(node);
    this.card.show(facts, node, true);
    this.card.uncover();
    if (node.dataset.index !== undefined) this.chosen(node, facts);
  }

  // The tree of the step that a token is of, the token in it marked.
  stepOf(node) {
    const step = Number(node.dataset.step),
      [shown, phase] = this.shown;
    this.picture(step, step === shown ? phase : Infinity);
    this.tree.select(Number(node.dataset.node || -1));
    return step;
  }

  // The tree goes back to the moment of the timeline, and the charts where a card had moved them.
  restore(locked) {
    const [step, phase] = this.shown;
    if (!this.text.steps[step]) return;
    this.picture(step, phase);
    this.tree.select(-1);
    if (locked) this.point(step, this.timeline.seconds);
  }

  jump(step) {
    this.timeline.goToStep(step);
    this.hands.stop.focus({ preventScroll: true });
  }

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
