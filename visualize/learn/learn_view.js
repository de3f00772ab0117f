// The lessons: chapters of a few stops, each of which puts the run beside it to a moment and marks
// what the words are about.
// `props.load` or `server.run` brings a run.
import { mount as mountDice } from "../proof/dice_view.js";
import { counted, foreign, make, paragraph, percent, quote, tell, visible } from "../kit/dom.js";
import { drawFigure } from "./learn_figures.js";
import { Rail } from "./learn_rail.js";
import { shownTokens } from "../kit/shown_tokens.js";
import { Share } from "./learn_share.js";
import { mount as mountTheory } from "./theory_view.js";
import { mount as mountRun } from "../run/token_view.js";

const QUIETLY = { preventScroll: true };

export function mount(element, props, watch, trigger, server) {
  const root = element.querySelector(".ouro-learn");
  const part = (name) => root.querySelector(".ouro-learn-" + name);
  const state = {
    chapter: 0,
    stop: 0,
    known: new Map(),
    done: new Set(),
    asked: 0,
  };
  const { chapters, questions } = JSON.parse(props.value);
  const stage = root.querySelector(".ouro-learn-run");
  // as in page.css: the words are a sheet at the lower edge
  const narrow = matchMedia("(max-width: 900px)");
  const view = { props: { value: null, looks: props.looks }, changed: () => {} };
  mountRun(
    stage,
    view.props,
    (_, changed) => (view.changed = changed),
    () => {},
  );
  mountTheory(
    part("theory"),
    { value: null, looks: props.looks, plotly: props.plotly },
    () => {},
    () => {},
  );

  mountDice(part("dice"), {});

  const rail = new Rail(
    part("list"),
    chapters.map((one) => one.title),
    (number) => go(number),
  );
  const figure = part("figure");

  const chapter = () => chapters[state.chapter];
  const share = new Share(root, chapters, props.place || "", (number) => go(number));
  const lastStop = () => chapter().stops.length; // the question comes behind the last stop

  const fetched = async (name) =>
    props.load ? JSON.stringify(await props.load(name)) : server.run({ name });

  // A run, or the promise of one that is on its way; what failed is asked for anew.
  function runOf(name) {
    const { known } = state;
    if (!known.has(name)) {
      const run = fetched(name);
      known.set(name, run);
      run.then(
        (value) => known.set(name, value),
        () => known.delete(name),
      );
    }
    return known.get(name);
  }

  // A sheet of words can make room for what they speak of, until the next stop.
  function fold(away) {
    root.toggleAttribute("data-folded", away);
    part("fold").textContent = away ? "Show words" : "Hide words";
    part("fold").setAttribute("aria-expanded", String(!away));
    measure();
  }

  async function go(number, stop = 0) {
    Object.assign(state, { chapter: number, stop });
    await drawStop();
  }

  // Where the reader is, and which questions are answered.
  function drawRail() {
    const stops = chapter().stops.length + 1;
    rail.show(state.chapter, (state.stop + 1) / stops, (n) => state.done.has(chapters[n].id));
    showIn(part("list"), [part("list").querySelector("[data-here]")]);
  }

  async function drawStop() {
    const here = chapter(),
      stop = here.stops[state.stop];
    state.asked += 1;
    part("status").textContent = "";
    fold(false);
    drawRail();
    share.at(here);
    part("title").textContent = here.title;
    part("position").textContent = stop ? `${state.stop + 1} of ${lastStop()}` : "A question";
    part("words").replaceChildren();
    part("answer").replaceChildren();
    part("back").disabled = !state.chapter && !state.stop;
    part("next").textContent = stop
      ? "Next"
      : state.chapter + 1 < chapters.length
        ? "Next chapter"
        : "Questions";
    part("next").toggleAttribute("data-last", !stop && state.chapter + 1 === chapters.length);
    for (const text of stop ? stop.words : here.question.words)
      part("words").append(paragraph(text));
    part("body").scrollTop = 0;
    const focus = stop ? stop : { at: null, ...here.question.focus };
    for (const name of ["theory", "dice"]) part(name).hidden = focus.figure !== name;
    part("theory").dataset.curve = focus.curve || "";
    if (focus.sliders) tell("ouro:theory", focus.sliders);
    const data = (here.figures || {})[focus.figure];
    figure.replaceChildren(...(data ? [drawFigure(focus.figure, data)] : []));
    stage.hidden = ["theory", "dice"].includes(focus.figure) || Boolean(data);
    part("residual").replaceChildren(
      ...(focus.figure === "residual" ? [residual(here.residual)] : []),
    );
    if (!stop) await ask(here.question);
    if (stop || here.question.kind !== "predict") await point(focus);
    root.dataset.at = state.chapter + "." + state.stop;
  }

  // Put the run to a moment and mark what is meant.
  async function point(focus) {
    const name = focus.run || chapter().run,
      asked = ++state.asked;
    const coming = runOf(name);
    if (coming instanceof Promise) part("status").textContent = "Fetching the run …";
    const run = await Promise.resolve(coming).catch(() => null);
    if (state.asked !== asked) return; // the reader has gone on meanwhile
    part("status").textContent = run
      ? ""
      : "The run of this chapter could not be fetched. Reload the page and try again.";
    if (!run) return;
    view.props.value = run;
    const shown = stage.ouroboros;
    shown.unseen(() => {
      view.changed();
      shown.windowed(Boolean(focus.windowed));
      shown.hideCard();
      if (focus.at) shown.moment(focus.at.step, focus.at.stage);
    });
    if (focus.at && !stage.hidden) shown.see(focus.at.step);
    for (const node of root.querySelectorAll("[data-spot]")) node.removeAttribute("data-spot");
    let height = 0;
    if (focus.card) {
      measure();
      shown.card(focus.card.step, focus.card.node);
      height = stage.querySelector(".ouro-card").offsetHeight;
    }
    const own = ["theory", "dice"].includes(focus.figure)
      ? [part(focus.figure)]
      : stage.hidden
        ? [figure]
        : [];
    const spots = focus.spot && !stage.hidden ? [...stage.querySelectorAll(focus.spot)] : own;
    for (const node of spots) {
      node.setAttribute("data-spot", "");
      const fold = node.closest("details");
      if (fold) fold.open = true;
    }
    if (focus.card) {
      reveal([...stage.querySelectorAll("[data-open]")], height);
      shown.repositionCard();
    }
    reveal(spots);
  }

  // How far to scroll so that what lies between two points comes to lie between two others; what is
  // too long, with its beginning.
  const shift = (from, to, low, high) =>
    from < low || to - from > high - low ? from - low : Math.max(0, to - high);

  function around(nodes) {
    const boxes = nodes
      .map((node) => node.getBoundingClientRect())
      .filter((box) => box.width || box.height);
    const [first] = boxes,
      sides = (side) => boxes.map((box) => box[side]);
    const most = (side) => Math.max(...sides(side)),
      least = (side) => Math.min(...sides(side));
    return (
      first && {
        first,
        left: least("left"),
        top: least("top"),
        right: most("right"),
        bottom: most("bottom"),
      }
    );
  }

  // Scroll a box of the view's own so that some elements in it are seen, or else the first of them.
  function showIn(box, nodes) {
    const frame = box.getBoundingClientRect(),
      all = around(nodes),
      edge = 6;
    if (!all) return;
    const fits = all.bottom - all.top < frame.height && all.right - all.left < frame.width,
      goal = fits ? all : all.first;
    box.scrollTop += shift(goal.top, goal.bottom, frame.top + edge, frame.bottom - edge);
    box.scrollLeft += shift(goal.left, goal.right, frame.left + edge, frame.right - edge);
  }

  // Where the words are a sheet: how high it is.
  // How high the page's places are at the lower edge, below the sheet.
  const nav = () =>
    (narrow.matches && parseFloat(getComputedStyle(root).getPropertyValue("--ouro-nav"))) || 0;

  function measure() {
    const sheet = part("text"),
      high = document.documentElement.clientHeight;
    const covered = Math.max(
      sheet.offsetHeight + nav(),
      sheet.offsetHeight && high - sheet.getBoundingClientRect().top,
    );
    root.style.setProperty("--ouro-sheet", (narrow.matches ? covered : 0) + "px");
  }

  // Scroll so that the words and what they speak of are seen together, with so much space below it.
  function reveal(nodes, below = 0) {
    measure();
    const [first] = nodes,
      words = part("text"),
      card = stage.querySelector(".ouro-locked");
    for (const box of stage.querySelectorAll(".ouro-text, .ouro-tree"))
      if (box !== first && first && box.contains(first)) showIn(box, nodes);
    const high = document.documentElement.clientHeight,
      edge = 10,
      all = around(nodes);
    const top = edge + (narrow.matches ? part("rail").offsetHeight : 0);
    const sheet = card && card !== first && getComputedStyle(card).position === "fixed";
    const floor =
      high -
      edge -
      nav() -
      (narrow.matches ? words.offsetHeight : 0) -
      (sheet ? card.offsetHeight : 0);
    if (all)
      scrollBy({
        top: shift(all.top, all.bottom + (sheet ? 0 : below), top, floor),
        behavior: "instant",
      });
    const cut =
      words.getClientRects().length && words.getBoundingClientRect().bottom - (high - nav());
    if (cut > 0) scrollBy({ top: Math.ceil(cut), behavior: "instant" });
    measure();
  }

  function ask(question) {
    if (question.kind === "predict") return predict(question);
    const list = make("div", "ouro-learn-options");
    question.options.forEach((text, n) => {
      const button = make("button", "ouro-learn-option", text);
      button.type = "button";
      button.addEventListener("click", () => {
        for (const other of list.children) {
          other.disabled = true;
          other.dataset.verdict =
            [...list.children].indexOf(other) === question.answer
              ? "right"
              : other === button
                ? "wrong"
                : "";
        }
        settle(n === question.answer, [question.why]);
      });
      list.append(button);
    });
    part("answer").append(list);
  }

  // "Will the target accept these guesses?": what the draft wrote in a step, then what became of
  // it. A step is left out if any view of a run has shown what the target writes there. The next
  // question has another answer where possible.
  const unseen = (question, last) => {
    const known = (round) => shownTokens(question.prompts[round.run]);
    const fresh = question.rounds.filter((round) => round.tokens_before >= known(round));
    const near = fresh.filter((round) => round.run === fresh[0].run).slice(0, 8);
    return near.find((round) => !last.includes(round.accepted)) || fresh[0];
  };

  async function predict(question, last = []) {
    const round = unseen(question, last);
    part("answer").replaceChildren();
    if (!round) return part("answer").append(paragraph(question.none));
    const moment = (at) => ({
      run: round.run,
      at: { step: round.step, stage: at },
      spot: `.ouro-step[data-step="${round.step}"]`,
    });
    await point(moment("draft"));
    // the reader has gone on meanwhile
    if (chapter().question !== question || state.stop !== lastStop()) return undefined;
    const guesses = foreign(make("p", "ouro-learn-guesses"));
    round.tokens.forEach((text, n) =>
      guesses.append(
        make("span", "ouro-learn-guess", visible(text)),
        n + 1 < round.tokens.length ? " " : "",
      ),
    );
    const list = make("div", "ouro-learn-options");
    for (let n = 0; n <= round.tokens.length; n++) {
      const button = make("button", "ouro-learn-option", `the first ${n}`);
      button.type = "button";
      button.addEventListener("click", async () => {
        for (const other of list.children) other.disabled = true;
        button.dataset.verdict = n === round.accepted ? "right" : "wrong";
        list.children[round.accepted].dataset.verdict = "right";
        settle(n === round.accepted, [round.why]);
        const known = [...last.slice(-1), round.accepted];
        if (unseen(question, known)) {
          part("answer").append(another(question, known));
          part("answer").lastChild.focus(QUIETLY);
        }
        await point(moment("commit"));
      });
      list.append(button);
    }
    part("answer").append(guesses, list);
    if (last.length) list.firstChild.focus(QUIETLY);
    return reveal([...stage.querySelectorAll("[data-spot]")]);
  }

  function another(question, last) {
    const button = make("button", "ouro-learn-option", "Another one");
    button.type = "button";
    button.addEventListener("click", () => predict(question, last));
    return button;
  }

  function settle(right, sentences) {
    const box = make("div", "ouro-learn-verdict");
    box.dataset.right = String(right);
    box.setAttribute("role", "status");
    box.append(
      make("strong", "", right ? "Right." : "Not quite."),
      ...sentences.map((text) => paragraph(text)),
    );
    part("answer").append(box);
    showIn(part("body"), [box]);
    // the pressed button cannot be pressed again: whoever goes by keys would stand nowhere
    onward().focus(QUIETLY);
    state.done.add(chapter().id);
    drawRail();
  }

  // p, q and what is left of p: for each token three bars, the shares that are kept and drawn anew
  // told in words beneath.
  function residual(data) {
    const figure = make("figure", "ouro-residual"),
      table = make("table"),
      head = make("tr");
    for (const name of ["token", "draft q", "target p", "min(p, q)", "left of p"])
      head.append(make("th", "", name));
    table.append(head);
    for (const row of data.rows) {
      const line = make("tr");
      line.append(make("th"));
      line.lastChild.append(quote(visible(row.text)));
      for (const [name, look] of [
        ["draft", "draft"],
        ["target", "correction"],
        ["kept", "suffix"],
        ["left", "bonus"],
      ]) {
        const cell = make("td", "ouro-bar ouro-left"),
          fill = make("i");
        fill.style.width = 100 * row[name] + "%";
        fill.dataset.look = look;
        cell.append(fill, make("span", "", percent(row[name])));
        line.append(cell);
      }
      table.append(line);
    }
    figure.append(table, make("figcaption", "", data.words));
    return figure;
  }

  part("fold").addEventListener("click", () => fold(!root.hasAttribute("data-folded")));
  // Where a lesson stands alone, there is nothing to go on to behind its last chapter; and nothing
  // to go back to before the first.
  const usable = (name) => part(name).offsetParent && !part(name).disabled;
  const onward = () => part(usable("next") ? "next" : "back");

  // The pressed button may be gone by then: whoever goes by keys would stand nowhere.
  function turn(name) {
    const pressed = document.activeElement === part(name);
    const drawn = drawStop();
    if (pressed && !usable(name)) part(name === "next" ? "back" : "next").focus(QUIETLY);
    return drawn;
  }

  part("back").addEventListener("click", () => {
    if (state.stop) {
      state.stop -= 1;
      return turn("back");
    }
    return go(state.chapter - 1, chapters[state.chapter - 1].stops.length);
  });
  part("next").addEventListener("click", () => {
    if (state.stop < lastStop()) {
      state.stop += 1;
      return turn("next");
    }
    if (state.chapter + 1 < chapters.length) return go(state.chapter + 1);
    part("questions").open = true;
    return part("questions").scrollIntoView({ block: "start" });
  });
  part("questions").querySelector("summary").textContent =
    `${counted(questions.length, "question")} to answer at the end`;
  questions.forEach(({ words, chapter: number, stop, answer }) => {
    const item = make("li"),
      fold = make("details");
    const link = make(
      "button",
      "ouro-learn-link",
      `Chapter ${number + 1}: ${chapters[number].title}`,
    );
    link.type = "button";
    link.addEventListener("click", () => {
      go(number, stop);
      root.scrollIntoView({ block: "start" });
    });
    fold.append(make("summary", "", words), paragraph(answer), link);
    item.append(fold);
    part("ten").append(item);
  });
  new ResizeObserver(measure).observe(part("text"));
  // at the page's end it lies above the questions
  addEventListener("scroll", measure, { passive: true });
  go(share.first());
}
