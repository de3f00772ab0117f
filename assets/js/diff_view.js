// Two runs of one prompt: the text they share, cut where both end a step, and where one of them needed fewer; or why they cannot
// be compared.
import { bring, make } from "./dom.js";
import { wording } from "./words.js";

export function mount(element, props, watch) {
  const { say } = wording(props.words);
  const root = element.querySelector(".ouro-diff");
  const part = (name) => root.querySelector(".ouro-diff-" + name);

  function paint() {
    const value = props.value && JSON.parse(props.value);
    for (const name of ["title", "status", "lines", "lanes", "text", "table"]) part(name).replaceChildren();
    part("problem").textContent = (value && value.problem) || "";
    part("found").hidden = !value || !value.segments;
    if (part("found").hidden) return;
    part("title").textContent = value.title;
    part("status").textContent = value.status;
    for (const lane of value.lanes) part("lanes").append(make("li", "", say("diff.lane", { ...lane, seconds: lane.seconds.toFixed(2) })));
    part("lines").replaceChildren(...value.lines.map((line) => make("p", "", line)));
    for (const segment of value.segments) part("text").append(span(segment));
    const head = make("tr");
    for (const name of value.head) head.append(make("th", "", name));
    part("table").append(head);
    for (const row of value.rows) {
      const line = make("tr");
      for (const cell of row) line.append(make("td", "", String(cell)));
      part("table").append(line);
    }
  }

  function span(segment) {
    const node = make("span", "ouro-segment", segment.text);
    node.title = say("diff.segment", { a: segment.a, b: segment.b, tokens: segment.tokens });
    if (!segment.saved) return node;
    node.dataset.saved = segment.saved > 0 ? "b" : "a";
    node.style.setProperty("--share", Math.min(1, Math.abs(segment.saved) / segment.tokens) * 100 + "%");
    node.append(make("sup", "", (segment.saved > 0 ? "−" : "+") + Math.abs(segment.saved)));
    return node;
  }

  paint();
  watch("value", () => {
    paint();
    bring(root);
  });
}
