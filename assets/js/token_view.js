// The token view. `element`, `props`, `watch` and `trigger` come from gr.HTML.
// Text of prompt and model is data: it reaches the page through textContent only.
const root = element.querySelector(".ouro-run");
const part = (name) => root.querySelector(".ouro-" + name);
const text = part("text"), card = part("card"), legend = part("legend"), tiles = part("tiles"), status = part("status");
const looks = new Map(props.looks.map((look) => [look.look, look]));
const state = { run: null, steps: 0, tokens: 0, counts: new Map() };

const make = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};

function start(value) {
  state.run = value.run;
  state.steps = 0;
  state.tokens = 0;
  state.counts.clear();
  text.replaceChildren();
  card.hidden = true;
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
  node.tabIndex = state.tokens === 0 ? 0 : -1;
  state.tokens += 1;
  state.counts.set(token.look, (state.counts.get(token.look) || 0) + 1);
  return node;
}

function append(steps) {
  const fragment = document.createDocumentFragment();
  for (const step of steps) {
    for (const token of step.tokens) fragment.append(tokenNode(token, step));
    state.steps += 1;
  }
  text.append(fragment);
}

function drawLegend() {
  legend.replaceChildren();
  for (const [key, look] of looks) {
    const count = state.counts.get(key);
    if (!count) continue;
    const item = make("li", "ouro-key");
    item.dataset.look = key;
    item.title = look.sentence;
    const glyph = make("span", "ouro-glyph", look.glyph);
    glyph.setAttribute("aria-hidden", "true");
    item.append(glyph, make("span", "", look.label), make("b", "", String(count)));
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

function draw(value) {
  if (!value || !value.run) return;
  if (value.run !== state.run || value.from > state.steps) start(value);
  const known = state.steps - value.from;
  append(value.steps.slice(known));
  if (value.steps.length > known) drawLegend();
  if (value.badge !== undefined) part("badge").textContent = value.badge;
  if (value.title !== undefined) part("title").textContent = value.title;
  if (value.tiles) drawTiles(value.tiles);
  if (value.status !== undefined) status.textContent = value.status;
  root.dataset.done = String(Boolean(value.done));
}

function describe(node) {
  const data = node.dataset, look = looks.get(data.look);
  const parts = [look.glyph + " " + look.label, "step " + (Number(data.step) + 1), "position " + (Number(data.index) + 1), "id " + data.id];
  if (data.learned) parts.push("phrase learned from " + data.learned + (data.since !== undefined ? " at step " + (Number(data.since) + 1) : ""));
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
text.addEventListener("pointerover", (event) => tokenAt(event) && show(tokenAt(event)));
text.addEventListener("pointerleave", () => (card.hidden = true));
text.addEventListener("focusin", (event) => tokenAt(event) && show(tokenAt(event)));
text.addEventListener("focusout", () => (card.hidden = true));
text.addEventListener("keydown", (event) => {
  const node = tokenAt(event);
  if (event.key === "Escape") card.hidden = true;
  if (!node) return;
  const all = text.querySelectorAll(".ouro-token"), index = Number(node.dataset.index);
  const target = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: all.length - 1 }[event.key];
  if (target === undefined || !all[target]) return;
  event.preventDefault();
  node.tabIndex = -1;
  all[target].tabIndex = 0;
  all[target].focus();
});

draw(props.value);
watch("value", () => draw(props.value));
