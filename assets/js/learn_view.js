// The lessons: chapters of a few stops, each of which puts the run beside it to a moment and marks what the words are about.
// `props.load` or `server.run` brings a run.
import { make, paragraph, percent, visible } from "./dom.js";
import { mount as mountTheory } from "./theory_view.js";
import { mount as mountRun } from "./token_view.js";

export function mount(element, props, watch, trigger, server) {
  const root = element.querySelector(".ouro-learn");
  const part = (name) => root.querySelector(".ouro-learn-" + name);
  const state = { chapter: 0, stop: 0, asked: 0, known: new Map(), done: new Set(), wanted: "" };
  const { chapters, questions } = JSON.parse(props.value);
  const stage = root.querySelector(".ouro-learn-run");
  const narrow = matchMedia("(max-width: 900px)"); // as in page.css: the words are a sheet at the lower edge
  const view = { props: { value: null, looks: props.looks }, changed: () => {} };
  mountRun(stage, view.props, (_, changed) => (view.changed = changed), () => {});
  mountTheory(part("theory"), { value: null, looks: props.looks, plotly: props.plotly }, () => {}, () => {});

  const chapter = () => chapters[state.chapter];
  const lastStop = () => chapter().stops.length; // the question comes behind the last stop

  async function runOf(name) {
    if (!state.known.has(name)) state.known.set(name, props.load ? JSON.stringify(await props.load(name)) : await server.run({ name }));
    return state.known.get(name);
  }

  async function go(number, stop = 0) {
    Object.assign(state, { chapter: number, stop, asked: 0 });
    drawList();
    await drawStop();
  }

  function drawList() {
    part("list").replaceChildren();
    chapters.forEach((one, n) => {
      const item = make("li"), button = make("button", "ouro-learn-chapter", one.title);
      button.type = "button";
      if (n === state.chapter) button.setAttribute("aria-current", "true");
      if (state.done.has(one.id)) button.dataset.done = "";
      button.addEventListener("click", () => go(n));
      item.append(button);
      part("list").append(item);
      if (n === state.chapter) item.dataset.here = "";
    });
    showIn(part("list"), [part("list").querySelector("[data-here]")]);
  }

  async function drawStop() {
    const here = chapter(), stop = here.stops[state.stop];
    part("title").textContent = here.title;
    part("position").textContent = stop ? `${state.stop + 1} of ${lastStop()}` : "A question";
    part("words").replaceChildren();
    part("answer").replaceChildren();
    part("back").disabled = !state.chapter && !state.stop;
    part("next").textContent = stop ? "Next" : state.chapter + 1 < chapters.length ? "Next chapter" : "Ten questions";
    part("next").disabled = false;
    for (const text of stop ? stop.words : here.question.words) part("words").append(paragraph(text));
    part("body").scrollTop = 0;
    const focus = stop ? stop : { at: null, ...here.question.focus };
    part("theory").hidden = focus.figure !== "theory";
    part("residual").replaceChildren(...(focus.figure === "residual" ? [residual(here.residual)] : []));
    if (!stop) await ask(here.question);
    if (stop || here.question.kind !== "predict") await point(focus);
    root.dataset.at = state.chapter + "." + state.stop;
  }

  // Put the run to a moment and mark what is meant.
  async function point(focus) {
    const name = focus.run || chapter().run;
    state.wanted = name;
    if (!state.known.has(name)) part("status").textContent = "Fetching the run …";
    const run = await runOf(name).catch(() => null);
    if (state.wanted !== name) return;
    part("status").textContent = run ? "" : "The run of this chapter could not be fetched. Reload the page and try again.";
    if (!run) return;
    view.props.value = run;
    view.changed();
    const shown = stage.ouroboros;
    shown.windowed(Boolean(focus.windowed));
    shown.hideCard();
    if (focus.at) shown.moment(focus.at.step, focus.at.stage);
    for (const node of stage.querySelectorAll("[data-spot]")) node.removeAttribute("data-spot");
    let height = 0;
    if (focus.card) {
      measure();
      shown.card(focus.card.step, focus.card.node);
      height = stage.querySelector(".ouro-card").offsetHeight;
    }
    const spots = focus.spot ? [...stage.querySelectorAll(focus.spot)] : focus.figure === "theory" ? [part("theory")] : [];
    for (const node of focus.spot ? spots : []) {
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

  // How far to scroll so that what lies between two points comes to lie between two others; what is too long, with its beginning.
  const shift = (from, to, low, high) => (from < low || to - from > high - low ? from - low : Math.max(0, to - high));

  function around(nodes) {
    const boxes = nodes.map((node) => node.getBoundingClientRect()).filter((box) => box.width || box.height);
    const [first] = boxes, sides = (side) => boxes.map((box) => box[side]);
    const most = (side) => Math.max(...sides(side)), least = (side) => Math.min(...sides(side));
    return first && { first, left: least("left"), top: least("top"), right: most("right"), bottom: most("bottom") };
  }

  // Scroll a box of the view's own so that some elements in it are seen, or else the first of them.
  function showIn(box, nodes) {
    const frame = box.getBoundingClientRect(), all = around(nodes), edge = 6;
    if (!all) return;
    const fits = all.bottom - all.top < frame.height && all.right - all.left < frame.width, goal = fits ? all : all.first;
    box.scrollTop += shift(goal.top, goal.bottom, frame.top + edge, frame.bottom - edge);
    box.scrollLeft += shift(goal.left, goal.right, frame.left + edge, frame.right - edge);
  }

  // Where the words are a sheet: how high it is.
  // How high the page's places are at the lower edge, below the sheet.
  const nav = () => (narrow.matches && parseFloat(getComputedStyle(root).getPropertyValue("--ouro-nav"))) || 0;

  function measure() {
    root.style.setProperty("--ouro-sheet", (narrow.matches ? part("text").offsetHeight + nav() : 0) + "px");
  }

  // Scroll so that the words and what they speak of are seen together, with so much space below it.
  function reveal(nodes, below = 0) {
    measure();
    const [first] = nodes, words = part("text"), card = stage.querySelector(".ouro-locked");
    for (const box of stage.querySelectorAll(".ouro-text, .ouro-tree")) if (box !== first && first && box.contains(first)) showIn(box, nodes);
    const high = document.documentElement.clientHeight, edge = 10, all = around(nodes);
    const sheet = card && card !== first && getComputedStyle(card).position === "fixed";
    const floor = high - edge - nav() - (narrow.matches ? words.offsetHeight : 0) - (sheet ? card.offsetHeight : 0);
    if (all) scrollBy({ top: shift(all.top, all.bottom + (sheet ? 0 : below), edge, floor), behavior: "instant" });
    const cut = words.getClientRects().length && words.getBoundingClientRect().bottom - (high - nav());
    if (cut > 0) scrollBy({ top: Math.ceil(cut), behavior: "instant" });
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
          other.dataset.verdict = [...list.children].indexOf(other) === question.answer ? "right" : other === button ? "wrong" : "";
        }
        settle(n === question.answer, [question.why]);
      });
      list.append(button);
    });
    part("answer").append(list);
  }

  // "Will the target accept these four tokens?": the draft's guesses of a step, then what became of them.
  async function predict(question) {
    const round = question.rounds[state.asked];
    part("answer").replaceChildren();
    await point({ at: { step: round.step, stage: "draft" }, spot: `.ouro-step[data-step="${round.step}"]` });
    if (chapter().question !== question || state.stop !== lastStop()) return; // the reader has gone on meanwhile
    const guesses = make("p", "ouro-learn-guesses");
    round.tokens.forEach((text, n) => guesses.append(make("span", "ouro-learn-guess", visible(text)), n + 1 < round.tokens.length ? " " : ""));
    const list = make("div", "ouro-learn-options");
    for (let n = 0; n <= round.tokens.length; n++) {
      const button = make("button", "ouro-learn-option", `the first ${n}`);
      button.type = "button";
      button.addEventListener("click", async () => {
        for (const other of list.children) other.disabled = true;
        button.dataset.verdict = n === round.accepted ? "right" : "wrong";
        list.children[round.accepted].dataset.verdict = "right";
        settle(n === round.accepted, [round.why]);
        if (state.asked + 1 < question.rounds.length) part("answer").append(another(question));
        await point({ at: { step: round.step, stage: "commit" }, spot: `.ouro-step[data-step="${round.step}"]` });
      });
      list.append(button);
    }
    part("answer").append(guesses, list);
    reveal([...stage.querySelectorAll("[data-spot]")]);
  }

  function another(question) {
    const button = make("button", "ouro-learn-option", "Another one");
    button.type = "button";
    button.addEventListener("click", () => {
      state.asked += 1;
      predict(question);
    });
    return button;
  }

  function settle(right, sentences) {
    const box = make("div", "ouro-learn-verdict");
    box.dataset.right = String(right);
    box.setAttribute("role", "status");
    box.append(make("strong", "", right ? "Right." : "Not quite."), ...sentences.map((text) => paragraph(text)));
    part("answer").append(box);
    showIn(part("body"), [box]);
    state.done.add(chapter().id);
    drawList();
  }

  // p, q and what is left of p: for each token three bars, the shares that are kept and drawn anew told in words beneath.
  function residual(data) {
    const figure = make("figure", "ouro-residual"), table = make("table"), head = make("tr");
    for (const name of ["token", "draft q", "target p", "min(p, q)", "left of p"]) head.append(make("th", "", name));
    table.append(head);
    for (const row of data.rows) {
      const line = make("tr");
      line.append(make("th", "", visible(row.text)));
      for (const [name, look] of [["draft", "draft"], ["target", "correction"], ["kept", "suffix"], ["left", "bonus"]]) {
        const cell = make("td", "ouro-bar ouro-left"), fill = make("i");
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

  part("back").addEventListener("click", () => {
    if (state.stop) {
      state.stop -= 1;
      return drawStop();
    }
    return go(state.chapter - 1, chapters[state.chapter - 1].stops.length);
  });
  part("next").addEventListener("click", () => {
    if (state.stop < lastStop()) {
      state.stop += 1;
      return drawStop();
    }
    if (state.chapter + 1 < chapters.length) return go(state.chapter + 1);
    part("questions").open = true;
    return part("questions").scrollIntoView({ block: "start" });
  });
  questions.forEach(({ words, chapter: number, stop, answer }) => {
    const item = make("li"), fold = make("details");
    const link = make("button", "ouro-learn-link", `Chapter ${number + 1}: ${chapters[number].title}`);
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
  go(0);
}
