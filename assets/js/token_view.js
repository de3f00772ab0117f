// The token view. `element`, `props`, `watch` and `trigger` come from gr.HTML.
// Text of prompt and model is data: it reaches the page through textContent only.
const root = element.querySelector(".ouro-run");
const part = (name) => root.querySelector(".ouro-" + name);
const text = part("text"), card = part("card"), legend = part("legend"), tiles = part("tiles");
const status = part("status"), said = part("said"), palette = part("palette");
const looks = new Map(props.looks.map((look) => [look.look, look]));
const state = { run: null, steps: 0, tokens: 0, counts: new Map(), spoken: 0 };
const SPEAK_EVERY_MS = 5000;

const make = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};

function start(value) {
  Object.assign(state, { run: value.run, steps: 0, tokens: 0, spoken: 0 });
  state.counts.clear();
  text.replaceChildren();
  legend.replaceChildren();
  card.hidden = true;
  part("title").textContent = "";
  if (value.prompt) {
    const prompt = make("span", "ouro-prompt", value.chat ? value.prompt + "\n\n" : value.prompt);
    prompt.dataset.source = "context";
    text.append(prompt);
  }
}

function tokenNode(token, step) {
  const node = make("span", "ouro-token", token.text);
  node.dataset.index = String(state.tokens);
  node.dataset.step = String(step.index);
  node.dataset.source = token.source;
  node.dataset.look = token.look;
  if (token.kind) node.dataset.kind = token.kind;
  node.dataset.id = String(token.id);
  if (token.learned) node.dataset.learned = token.learned;
  if (token.since !== undefined && token.since !== null) node.dataset.since = String(token.since);
  if (token.place !== undefined) node.dataset.place = String(token.place);
  if (token.match) node.dataset.match = String(token.match);
  if (token.rank) node.dataset.rank = String(token.rank);
  if (token.confidence !== undefined) node.dataset.confidence = String(token.confidence);
  if (token.also) node.dataset.also = token.also;
  node.tabIndex = state.tokens === 0 ? 0 : -1;
  node.setAttribute("aria-describedby", "ouro-card");
  state.tokens += 1;
  state.counts.set(token.look, (state.counts.get(token.look) || 0) + 1);
  return node;
}

function append(steps) {
  const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
  const fragment = document.createDocumentFragment();
  for (const step of steps) {
    for (const token of step.tokens) fragment.append(tokenNode(token, step));
    state.steps += 1;
  }
  text.append(fragment);
  if (atEnd) text.scrollTop = text.scrollHeight;
}

function drawLegend() {
  legend.replaceChildren();
  for (const [key, look] of looks) {
    const count = state.counts.get(key);
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
    tiles.append(box);
  }
}

function say(words, now) {
  status.textContent = words;
  if (now || Date.now() - state.spoken > SPEAK_EVERY_MS) {
    state.spoken = Date.now();
    said.textContent = words;
  }
}

function draw(json) {
  if (!json) return;
  const value = JSON.parse(json);
  if (value.stopped) {
    if (root.dataset.done !== "true") say("Stopped after " + state.tokens + " tokens. What was written stays.", true);
    root.dataset.done = "true";
    return;
  }
  if (!value.run) return;
  if (value.run !== state.run || (value.from === 0 && (value.done || !state.tokens))) start(value); // the last view is whole
  const known = state.steps - value.from;
  if (known >= 0) {
    const fresh = value.steps.slice(known);
    append(fresh);
    if (fresh.length) drawLegend();
  } // else steps are missing here, and a later view from 0 brings them
  if (value.badge !== undefined) part("badge").textContent = value.badge;
  if (value.title !== undefined) part("title").textContent = value.title;
  if (value.tiles) drawTiles(value.tiles);
  root.dataset.done = String(Boolean(value.done));
  if (value.status !== undefined) say(value.status, value.done);
}

function describe(node) {
  const data = node.dataset, look = looks.get(data.look);
  const parts = [look.glyph + " " + look.label, "step " + (Number(data.step) + 1), "position " + (Number(data.index) + 1), "id " + data.id];
  if (data.place !== undefined) {
    const place = "token " + (Number(data.place) + 1) + " of ";
    parts.push("copied from " + place + (data.learned === "prediction" ? "the expected text" : "prompt and output"));
  } else if (data.learned) parts.push("phrase learned from " + data.learned + (data.since !== undefined ? " at step " + (Number(data.since) + 1) : ""));
  if (data.match) parts.push("behind a match of " + data.match + (data.match === "1" ? " token" : " tokens"));
  if (data.rank) parts.push("candidate number " + (Number(data.rank) + 1));
  if (data.confidence !== undefined) parts.push("the draft gave it " + Math.round(100 * Number(data.confidence)) + "%");
  if (data.also) parts.push("also proposed as: " + data.also);
  return JSON.stringify(node.textContent) + " · " + parts.join(" · ");
}

function show(node) {
  card.textContent = describe(node);
  card.dataset.look = node.dataset.look;
  card.hidden = false;
  const box = node.getClientRects()[0] || node.getBoundingClientRect(), frame = root.getBoundingClientRect();
  const left = Math.max(0, Math.min(box.left - frame.left, frame.width - card.offsetWidth));
  card.style.left = left + "px";
  card.style.top = box.bottom - frame.top + 4 + "px";
}

const tokenAt = (event) => event.target.closest && event.target.closest(".ouro-token");
const hide = () => (card.hidden = true);
text.addEventListener("pointerover", (event) => (tokenAt(event) ? show(tokenAt(event)) : hide()));
text.addEventListener("pointerleave", hide);
text.addEventListener("scroll", hide);
text.addEventListener("focusin", (event) => tokenAt(event) && show(tokenAt(event)));
text.addEventListener("focusout", hide);
text.addEventListener("click", (event) => tokenAt(event) && trigger("token_select", { ...tokenAt(event).dataset }));
text.addEventListener("keydown", (event) => {
  const node = tokenAt(event);
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") hide();
  if (!node) return;
  const all = text.querySelectorAll(".ouro-token"), index = Number(node.dataset.index);
  const target = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: all.length - 1 }[event.key];
  if (target === undefined || !all[target]) return;
  event.preventDefault();
  node.tabIndex = -1;
  all[target].tabIndex = 0;
  all[target].focus();
});

palette.addEventListener("click", () => {
  const paper = document.body.dataset.ouroPalette !== "paper";
  for (const node of [document.body, root]) {
    if (paper) node.dataset.ouroPalette = "paper";
    else delete node.dataset.ouroPalette;
  }
  palette.setAttribute("aria-pressed", String(paper));
});

for (const [key, look] of looks) {
  const name = make("dt", "ouro-key"), glyph = make("span", "ouro-glyph", look.glyph);
  name.dataset.look = key;
  name.append(glyph, make("span", "ouro-sample", look.label));
  part("meaning").querySelector("dl").append(name, make("dd", "", look.sentence));
}
draw(props.value);
watch("value", () => draw(props.value));
