// The view of a run: text, timeline, token tree, card. `element`, `props`, `watch` and `trigger` come from gr.HTML.
// Needs dom.js, token_text.js, player.js, timeline.js, tree_view.js, token_card.js.
const root = element.querySelector(".ouro-run");
const part = (name) => root.querySelector(".ouro-" + name);
const place = part("text"), legend = part("legend"), tiles = part("tiles"), status = part("status"), said = part("said");
const looks = new Map(props.looks.map((look) => [look.look, look]));
const state = { run: null, old: null, left: null, stop: null, spoken: 0, drawn: 0, ends: [], atEnd: true, pointer: [] };
const SPEAK_EVERY_MS = 5000;
window.ouroCards = (window.ouroCards || 0) + 1; // there may be several views on a page
part("card").id = "ouro-card-" + window.ouroCards;
const text = new TokenText(place);
const card = new TokenCard(part("card"), root, looks, restore);
const tree = new TreeView(part("tree"), looks, (node, under) => inspect(nodeFacts(tree.step, node), under, true));
const timeline = new Timeline(part("timeline"), moment);

const shownMoment = () => timeline.frames[timeline.at] || [text.steps.length - 1, Infinity];

function start(value) {
  Object.assign(state, { run: value.run, stop: null, spoken: 0, ends: [], atEnd: true });
  text.clear();
  timeline.clear();
  legend.replaceChildren();
  part("tree").replaceChildren();
  part("tree-note").textContent = "";
  part("numbers").replaceChildren();
  part("notices").replaceChildren();
  card.hide();
  part("title").textContent = "";
  if (value.prompt) text.prompt(value.chat ? value.prompt + "\n\n" : value.prompt);
}

function append(steps) {
  text.append(steps);
  for (const step of steps) state.ends.push((state.ends[state.ends.length - 1] || 0) + step.tokens.length);
  timeline.append(steps);
  if (!timeline.follow) {
    if (timeline.at >= 0) text.show(...timeline.frames[timeline.at]);
    else text.show(-1, 0);
  } else {
    if (performance.now() - state.drawn > 250) aside();
    if (state.atEnd) requestAnimationFrame(() => (place.scrollTop = place.scrollHeight)); // measured where it is laid out anyway
  }
}

// What stands beside a text that is being written; it need not keep up with every token.
function aside() {
  state.drawn = performance.now();
  drawLegend();
  if (timeline.follow && !card.locked) picture(text.steps[text.steps.length - 1], Infinity);
}

// The cursor has moved: text, tree and charts follow.
function moment(step, phase) {
  if (card.locked) card.hide(); // it is of another moment
  if (step < 0) text.show(-1, 0);
  if (!text.steps[step]) return;
  if (timeline.follow) text.showAll();
  else text.show(step, phase);
  picture(text.steps[step], phase);
  follow(step);
  rove();
  point(step, timeline.seconds);
  if (timeline.timer === undefined || Date.now() - state.spoken > SPEAK_EVERY_MS) speak(describeStep(text.steps[step]));
}

// Where the charts' cursor stands.
function point(step, seconds) {
  tell("ouro:cursor", { run: state.run, step: step + 1, token: state.ends[step], seconds });
}

// One token is the text's tab stop: one that can be seen.
const seen = () => [...place.querySelectorAll(".ouro-step:not([data-later]) .ouro-token:not([data-later])")];

function rove(next) {
  if (!next && state.stop && state.stop.isConnected && !state.stop.closest("[data-later]")) return;
  const target = next || seen().pop() || place.querySelector(".ouro-token");
  if (!target) return;
  if (state.stop) state.stop.tabIndex = -1;
  state.stop = target;
  target.tabIndex = 0;
}

// Keep the current step in the text's own window, without moving the page.
function follow(step) {
  const span = text.spans[step];
  if (place.scrollHeight <= place.clientHeight) return;
  const top = span.offsetTop - place.offsetTop;
  if (top < place.scrollTop || top + span.offsetHeight > place.scrollTop + place.clientHeight)
    place.scrollTop = Math.max(0, top - place.clientHeight / 2);
}

function picture(step, phase) {
  if (!step || !part("stage").open) return;
  if (root.dataset.done !== "true" && part("tree").querySelector("svg :focus")) return; // somebody is looking at this one
  tree.show(step, phase);
  part("tree-note").textContent = describeStep(step);
  part("windowed").hidden = !step.window && !text.steps.some((one) => one.window);
}

function describeStep(step) {
  const accepted = step.tokens.filter((token) => token.node !== undefined).length, own = step.tokens.find((token) => token.node === undefined);
  const nodes = step.nodes.length, proposals = nodes ? say("view.step.checked", { nodes, accepted }) : say("view.step.unchecked");
  const who = own && (own.source === "draft" ? "draft" : own.kind || "target");
  const last = own ? say("view.own." + who, { text: JSON.stringify(own.text) }) : "";
  const rows = several("view.rows", step.width), passes = several("view.passes", step.passes);
  return say("view.step", { n: step.index + 1, proposals, own: last, rows, passes });
}

function drawLegend() {
  legend.replaceChildren();
  for (const [key, look] of looks) {
    const count = text.counts.get(key);
    if (!count) continue;
    const item = make("li", "ouro-key");
    item.dataset.look = key;
    const glyph = make("span", "ouro-glyph", look.glyph);
    glyph.setAttribute("aria-hidden", "true");
    item.append(glyph, make("span", "ouro-sample", look.label), make("b", "", String(count)));
    legend.append(item);
  }
}

function drawTiles(list) {
  tiles.replaceChildren();
  for (const tile of list) {
    const box = make("div", "ouro-tile");
    box.title = tile.note;
    box.append(make("dt", "", tile.label), make("dd", "", tile.value));
    if (tile.mark) box.append(make("dd", "ouro-tile-mark", tile.mark));
    tiles.append(box);
  }
}

// What must be known of a run before it is believed, and what one can do about it.
function drawNotices(list) {
  part("notices").replaceChildren();
  for (const notice of list) {
    const box = make("p", "ouro-notice", notice.words);
    if (notice.act) {
      const button = make("button", "ouro-toggle ouro-again", notice.label);
      button.type = "button";
      button.addEventListener("click", () => {
        tell("ouro:asked");
        trigger("run_again", { act: notice.act });
      });
      box.append(" ", button);
    }
    part("notices").append(box);
  }
}

// Another run was asked for: until the server answers, what is shown is the one before it.
function age() {
  state.old = { badge: part("badge").textContent, status: status.textContent };
  state.left = null;
  root.dataset.old = "";
  part("badge").textContent = say("view.old");
  announce(say("view.asked"), true);
}

function renew() {
  delete root.dataset.old;
  state.old = null;
}

if (props.asks) {
  document.addEventListener("ouro:asked", () => state.old || age());
  document.addEventListener("ouro:stop", () => (state.left = state.run));
  document.addEventListener("ouro:ended", () => {
    if (!state.old) return; // it has come to something
    part("badge").textContent = state.old.badge;
    announce(state.old.status, true);
    renew();
  });
}

function drawNumbers(sections) {
  part("numbers").replaceChildren();
  for (const section of sections) {
    const box = make("section", "ouro-section");
    box.append(make("h2", "", section.title));
    for (const line of section.lines) box.append(make("p", "", line));
    if (section.rows) {
      const table = make("table"), head = make("tr");
      for (const name of section.head) head.append(make("th", "", name));
      table.append(head);
      for (const row of section.rows) {
        const line = make("tr");
        for (const value of row) line.append(make("td", "", String(value)));
        table.append(line);
      }
      box.append(table);
    }
    part("numbers").append(box);
  }
}

function speak(words) {
  state.spoken = Date.now();
  said.textContent = words;
}

function announce(words, now) {
  status.textContent = words;
  if (now || Date.now() - state.spoken > SPEAK_EVERY_MS) speak(words);
}

function paint(json) {
  if (!json) return;
  const value = JSON.parse(json);
  if (!value.run || (value.run === state.left && !value.done)) return; // what was under way when it was stopped comes late
  if (state.old) renew();
  if (value.run !== state.run) {
    if (state.run !== null && !value.done) bring(root);
    start(value);
    if (props.asks && !value.done) tell("ouro:begun", { run: value.run });
  }
  const known = text.steps.length - value.from;
  kept = { ...(value.prompt === undefined ? kept : {}), ...value };
  if (known >= 0) {
    const fresh = value.steps.slice(known);
    if (fresh.length) append(fresh);
  } // else steps are missing here, and a later view from 0 brings them
  if (value.badge !== undefined) part("badge").textContent = value.badge;
  if (value.title !== undefined) part("title").textContent = value.title;
  if (value.tiles) drawTiles(value.tiles);
  if (value.notices) drawNotices(value.notices);
  if (value.numbers) drawNumbers(value.numbers);
  if (value.done) {
    finish(value.steps, value.ended);
    aside();
    if (value.theory && value.badge === say("view.live")) remember(value);
  }
  root.dataset.done = String(Boolean(value.done));
  root.dataset.unsaved = String(Boolean(value.unsaved));
  if (!state.stop) rove(place.querySelector(".ouro-token"));
  if (value.status !== undefined) announce(value.status, value.done);
}

// For a page that is loaded anew: the run as far as it has come.
let kept = {};
function keep({ detail }) {
  if (kept.run === "recorded" || !text.steps.length) return;
  const over = root.dataset.done === "true";
  const status = over ? part("status").textContent : say("keep.stopped", { tokens: text.tokens });
  detail.view = { ...kept, run: "kept", from: 0, steps: text.steps, done: true, status, badge: say("keep.badge"), unsaved: true };
}
if (props.keep) document.addEventListener("ouro:leave", keep);

// What the curves of the theory show as the visitor's own runs; it is forgotten with the page.
function remember(value) {
  window.ouroRuns = (window.ouroRuns || []).filter((run) => run.run !== value.run).slice(-49);
  window.ouroRuns.push({ run: value.run, name: value.title, ...value.theory });
  document.dispatchEvent(new CustomEvent("ouro:run"));
}

// The end of a stream may complete the last token's text.
function finish(steps, ended) {
  const last = steps.length && steps[steps.length - 1].tokens.slice(-1)[0], shown = place.querySelectorAll(".ouro-token");
  if (last && shown.length && shown[shown.length - 1].textContent !== last.text) shown[shown.length - 1].textContent = last.text;
  if (ended && shown.length) shown[shown.length - 1].dataset.end = "";
}

// Facts for the card.
function whereabouts(step, id, index) {
  const position = index === undefined ? [] : [say("view.at.position", { n: index + 1 })];
  return [say("view.at.step", { n: step.index + 1 }), ...position, say("view.at.id", { n: id })].join(" · ");
}

function tokenFacts(step, at, index) {
  const token = step.tokens[at], proposed = token.node !== undefined, before = at ? step.tokens[at - 1].node : 0;
  const facts = proposed ? { ...step.nodes[token.node - 1], text: token.text, why: token.why, number: token.node } : { ...token };
  return complete(facts, step, before, token, index);
}

function nodeFacts(step, number) {
  const at = step.tokens.findIndex((token) => token.node === number);
  if (at >= 0) return tokenFacts(step, at, state.ends[step.index] - step.tokens.length + at);
  const node = step.nodes[number - 1];
  const above = node.parent ? step.tokens.findIndex((token) => token.node === node.parent) : -1;
  const judged = node.parent === 0 || above >= 0;
  return complete({ ...node, number, rejected: true }, step, judged ? node.parent : undefined, step.tokens[above + 1], undefined);
}

function complete(facts, step, before, chosen, index) {
  const own = (token) => (token.node !== undefined ? step.nodes[token.node - 1].id : token.id);
  facts.where = whereabouts(step, facts.id, index);
  facts.odds = before === undefined || !step.odds ? undefined : step.odds[before];
  facts.chosen = chosen && own(chosen);
  facts.alone = facts.source === "draft" && facts.number === undefined;
  if (facts.learned && facts.source !== "copy") facts.phrase = phraseOf(step, facts);
  if (facts.step !== undefined && facts.learned && facts.learned !== "history" && facts.source !== "copy") {
    facts.learnedAt = facts.step;
    facts.jump = () => {
      timeline.goToStep(facts.step);
      state.stop.focus({ preventScroll: true });
    };
  }
  return facts;
}

// The texts of a phrase that hangs together: nodes of one origin, one below the other.
function phraseOf(step, facts) {
  const like = (node) => node && node.source === facts.source && node.learned === facts.learned && node.step === facts.step;
  let first = facts.number;
  while (step.nodes[first - 1].parent && like(step.nodes[step.nodes[first - 1].parent - 1])) first = step.nodes[first - 1].parent;
  let words = "";
  for (let node = first; node; ) {
    words += step.nodes[node - 1].text;
    const below = step.nodes.findIndex((other) => other.parent === node && like(other));
    node = below < 0 ? 0 : below + 1;
  }
  return visible(words);
}

function inspect(facts, under, lock) {
  card.show(facts, under, lock);
}

function factsOf(node) {
  const step = text.steps[Number(node.dataset.step)];
  if (node.classList.contains("ouro-rejected")) return nodeFacts(step, Number(node.dataset.node));
  const index = Number(node.dataset.index);
  return tokenFacts(step, index - (state.ends[step.index] - step.tokens.length), index);
}

const tokenAt = (event) => event.target.closest && event.target.closest(".ouro-token, .ouro-rejected");
const preview = (node) => !card.locked && inspect(factsOf(node), node, false);
const leave = () => !card.locked && card.hide();

// The card of a token stays until it is closed; tree and charts show the token's step meanwhile, the text stays as it is.
function lock(node) {
  const step = text.steps[Number(node.dataset.step)], [shown, phase] = shownMoment();
  picture(step, step.index === shown ? phase : Infinity);
  point(step.index, timeline.ends[step.index + 1]);
  inspect(factsOf(node), node, true);
  card.uncover();
  if (node.dataset.node) tree.select(Number(node.dataset.node));
  if (node.dataset.index !== undefined) trigger("token_select", { ...node.dataset });
}

// Tree and charts go back to the moment of the timeline.
function restore() {
  const [step, phase] = shownMoment();
  if (!text.steps[step]) return;
  picture(text.steps[step], phase);
  tree.select(-1);
  point(step, timeline.seconds);
}

// A card opens where the pointer itself has moved to a token, not where a token has moved under a pointer that rests.
document.addEventListener("pointermove", (event) => {
  const [x, y] = state.pointer, rests = event.clientX === x && event.clientY === y;
  state.pointer = [event.clientX, event.clientY];
  if (rests || event.pointerType === "touch" || !place.contains(event.target)) return;
  const node = tokenAt(event);
  if (!node) leave();
  else if (node !== card.under || part("card").hidden) preview(node);
});
place.addEventListener("pointerleave", leave);

// What has scrolled away from the pointer loses its card; that of the token with the focus follows it.
document.addEventListener(
  "scroll",
  () => {
    if (part("card").hidden) return;
    const [x, y] = state.pointer, pointed = x !== undefined && document.elementFromPoint(x, y);
    const stays = card.locked || document.activeElement === card.under || (pointed && tokenAt({ target: pointed }) === card.under);
    if (!stays) card.hide();
  },
  true,
);
place.addEventListener("scroll", () => {
  state.atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
  card.place();
});
addEventListener("resize", () => card.place());
place.addEventListener("focusin", (event) => tokenAt(event) && event.target.matches(":focus-visible") && preview(tokenAt(event)));
place.addEventListener("focusout", leave);
place.addEventListener("click", (event) => tokenAt(event) && lock(tokenAt(event)));
place.addEventListener("keydown", (event) => {
  const node = tokenAt(event);
  if (event.altKey || event.ctrlKey || event.metaKey || !node) return;
  if (event.key === "Enter") return lock(node);
  const all = seen(), index = all.indexOf(node);
  const target = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: all.length - 1 }[event.key];
  if (target === undefined || !all[target]) return;
  event.preventDefault();
  rove(all[target]);
  all[target].focus();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && card.hide());
document.addEventListener(
  "click",
  ({ target }) => {
    const own = root.contains(target) && target.closest(".ouro-card, .ouro-token, .ouro-rejected, [data-node]");
    if (card.locked && !own) card.hide();
  },
  true, // before what was clicked opens another one
);
document.addEventListener("ouro:seek", (event) => {
  if (!text.steps.length || event.detail.run !== state.run) return;
  const { step, token, seconds } = event.detail;
  if (step !== undefined) timeline.goToStep(step - 1);
  else if (token !== undefined) timeline.goToStep(state.ends.findIndex((end) => end >= token));
  else timeline.go(Math.max(0, timeline.frames.findLastIndex((frame) => frame[2] <= seconds + 1e-4)));
});

const press = (button, act) =>
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    act(on);
  });
press(part("final"), (on) => root.classList.toggle("ouro-final-only", on));
press(part("windowed"), windowed);

function windowed(on) {
  tree.windowed = on;
  const [step, phase] = shownMoment();
  picture(text.steps[step], phase);
}
part("stage").addEventListener("toggle", () => {
  const [step, phase] = timeline.frames[timeline.at] || [];
  if (step !== undefined) picture(text.steps[step], phase);
});
press(part("palette"), (on) => {
  for (const node of [document.body, ...document.querySelectorAll(".ouro-run")]) {
    if (on) node.dataset.ouroPalette = "paper";
    else delete node.dataset.ouroPalette;
  }
});

for (const [key, look] of looks) {
  const name = make("dt", "ouro-key"), glyph = make("span", "ouro-glyph", look.glyph);
  name.dataset.look = key;
  name.append(glyph, make("span", "ouro-sample", look.label));
  part("meaning").querySelector("dl").append(name, make("dd", "", look.sentence));
}

// For who leads a reader through a run: what a hand would do with timeline, toggle and tokens.
element.ouroboros = {
  moment: (step, stage) => timeline.goToMoment(step, stage),
  windowed(on) {
    if (String(on) !== part("windowed").getAttribute("aria-pressed")) part("windowed").click();
  },
  card(step, node) {
    const span = text.spans[step];
    const token = span && (span.querySelector(`[data-node="${node}"]`) || span.querySelector(".ouro-token:not([data-node])"));
    if (token) lock(token);
  },
  hideCard: () => card.hide(),
  placeCard: () => card.place(),
};
paint(props.value);
watch("value", () => paint(props.value));
