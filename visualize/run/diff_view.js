// Two runs of one prompt: the text they share, cut where both end a step, and where one of them
// needed fewer; or why they cannot be compared.
import { bring, counted, fill, make, mirrored, numberGoesOn } from "../kit/dom.js";

export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-diff");
  const part = (name) => root.querySelector(".ouro-diff-" + name);

  const described = ({ name, settings, steps, seconds }) =>
    `${name}: ${settings}; ${steps} steps, ${seconds.toFixed(2)} s`;

  function paint() {
    const value = props.value && JSON.parse(props.value);
    for (const name of ["title", "status", "lines", "lanes", "text", "key", "table"])
      part(name).replaceChildren();
    part("problem").textContent = (value && value.problem) || "";
    part("found").hidden = !value || !value.segments;
    if (part("found").hidden) return;
    part("title").textContent = value.title;
    part("status").textContent = value.status;
    part("lanes").replaceChildren(...value.lanes.map((lane) => make("li", "", described(lane))));
    part("lines").replaceChildren(...value.lines.map((line) => fill(make("p"), line)));
    const most = Math.max(...value.segments.map(share));
    const turned = mirrored(value.segments.map(({ text }) => text).join(""));
    value.segments.forEach((segment, n) => {
      const next = value.segments[n + 1]?.text || "",
        inside = turned && numberGoesOn(segment.text, next);
      part("text").append(span(segment, most, inside));
    });
    part("key").append(...key(value.segments));
    const head = make("tr");
    for (const name of value.head) head.append(make("th", "", name));
    part("table").append(head);
    for (const row of value.rows) {
      const line = make("tr");
      for (const cell of row) line.append(fill(make("td"), String(cell)));
      part("table").append(line);
    }
  }

  // Steps that one saved for a token of the segment.
  const share = ({ saved, tokens }) => Math.abs(saved) / tokens;

  function looks(node, saved, depth) {
    node.dataset.saved = saved > 0 ? "b" : "a";
    node.style.setProperty("--share", `${100 * depth}%`);
    return node;
  }

  // What the colours mean, of those that are there.
  function key(segments) {
    const found = [
      [1, "B needs fewer steps"],
      [-1, "B needs more steps"],
    ].filter(([sign]) => segments.some(({ saved }) => saved * sign > 0));
    const words = found.map(([sign, said]) => looks(make("span", "ouro-segment", said), sign, 1));
    if (words.length)
      words.push(make("span", "", "stronger colour: a larger difference per token"));
    return words;
  }

  // inside: whether it ends inside a number, where no words may stand.
  function span(segment, most, inside) {
    const node = make("span", "ouro-segment", segment.text);
    node.title = `${segment.tokens} tokens: ${segment.a} steps in A, ${segment.b} in B`;
    if (!segment.saved) return node;
    looks(node, segment.saved, share(segment) / most);
    if (inside) return node;
    node.append(
      make("small", "", (segment.saved > 0 ? "−" : "+") + counted(Math.abs(segment.saved), "step")),
    );
    node.lastChild.dir = "ltr";
    return node;
  }

  paint();
  watch("value", () => {
    paint();
    bring(root);
  });
}
