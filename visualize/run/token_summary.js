// What stands around the text of a run: tiles, notices, legend, numbers, the meaning of the looks,
// a step in words.
import { counted, fill, make, visible } from "../kit/dom.js";

// all: the tokens of each look in the whole run; sofar: those up to the step that is shown.
// Those that are to come have their place already: nothing moves while a run plays.
export function drawLegend(container, looks, all, sofar) {
  drawKeys(container, looks, new Set(all.keys()));
  // A source of guesses none of which was kept has a 0.
  for (const item of container.children) {
    const key = item.dataset.look,
      count = make("b", "", String(sofar.get(key) || 0));
    count.style.minWidth = String(all.get(key)).length + "ch";
    item.append(count);
  }
}

// The looks that occur, without their numbers.
export function drawKeys(container, looks, occurring) {
  container.replaceChildren();
  for (const [key, look] of looks) {
    if (!occurring.has(key)) continue;
    const item = make("li", "ouro-key");
    item.dataset.look = key;
    const glyph = make("span", "ouro-glyph", look.glyph);
    glyph.setAttribute("aria-hidden", "true");
    item.append(glyph, make("span", "ouro-sample", look.label));
    container.append(item);
  }
}

// The small mark of guesses that were rejected.
export function drawMark(container) {
  const item = make("li", "ouro-key-mark");
  item.append(make("span", "ouro-mark"), make("span", "", "rejected guesses"));
  container.append(item);
}

export function drawMeaning(container, looks) {
  for (const [key, look] of looks) {
    const name = make("dt", "ouro-key"),
      glyph = make("span", "ouro-glyph", look.glyph);
    name.dataset.look = key;
    name.append(glyph, make("span", "ouro-sample", look.label));
    container.append(name, make("dd", "", look.sentence));
  }
}

export function drawTiles(container, list) {
  container.replaceChildren();
  for (const tile of list) {
    const box = make("div", "ouro-tile");
    box.title = tile.note;
    box.append(make("dt", "", tile.label), make("dd", "", tile.value));
    if (tile.spread) box.append(make("dd", "ouro-tile-spread", tile.spread));
    if (tile.mark) box.append(make("dd", "ouro-tile-mark", tile.mark));
    container.append(box);
  }
}

// What must be known of a run before it is believed, and what one can do about it: again(act).
export function drawNotices(container, list, again) {
  container.replaceChildren();
  for (const notice of list) {
    const box = fill(make("p", "ouro-notice"), notice.words);
    if (notice.act) {
      const button = make("button", "ouro-toggle ouro-again", notice.label);
      button.type = "button";
      button.addEventListener("click", () => again(notice.act));
      box.append(" ", button);
    }
    container.append(box);
  }
}

export function drawNumbers(container, sections) {
  container.replaceChildren();
  for (const section of sections) {
    const box = make("section", "ouro-section");
    box.append(make("h2", "", section.title));
    for (const line of section.lines) box.append(fill(make("p"), line));
    if (section.rows) box.append(table(section));
    container.append(box);
  }
}

function table({ head, rows }) {
  const body = make("table"),
    first = make("tr");
  for (const name of head) first.append(make("th", "", name));
  body.append(first);
  for (const row of rows) {
    const line = make("tr");
    for (const value of row) line.append(make("td", "", String(value)));
    body.append(line);
  }
  return body;
}

// judged: whether the moment that is shown is after the target's verdict; before it the result is
// not told.
export function describeStep(step, judged = true) {
  const accepted = step.tokens.filter((token) => token.node !== undefined).length;
  const nodes = step.nodes.length,
    kept = judged ? `kept ${accepted}` : "not verified yet",
    proposals = nodes ? `guessed ${nodes}, ${kept}` : "no guess";
  const own = step.tokens.find((token) => token.node === undefined);
  const read = counted(step.width, "token"),
    passes = step.passes ? counted(step.passes, "draft pass", "draft passes") : "no draft pass";
  const saved = step.saved ? `, ${counted(step.saved, "token")} fewer to draft by merging` : "";
  const result = own && judged ? "; " + added(own) : "";
  return (
    `Step ${step.index + 1}: ${proposals}${result}. The target's pass reads ${read}; ` +
    `${passes}${saved}.`
  );
}

// The last token of a step, which nobody proposed.
function added({ source, kind, text }) {
  const quoted = `‘\u2068${visible(text)}\u2069’`;
  if (source === "draft") return `the draft model writes ${quoted}`;
  return `the target adds ${quoted}` + (kind ? `, a ${kind}` : "");
}
