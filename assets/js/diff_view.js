// Two runs of one prompt: the text they share, cut where both end a step, and where one of them
// needed fewer; or why they cannot
// be compared.
import { bring, make } from "./dom.js";

export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-diff");
  const part = (name) => root.querySelector(".ouro-diff-" + name);

  const described = ({ name, settings, steps, seconds }) =>
    `${name}: ${settings}; ${steps} steps, ${seconds.toFixed(2)} s`;

  function paint() {
    const value = props.value && JSON.parse(props.value);
    for (const name of ["title", "status", "lines", "lanes", "text", "table"])
      part(name).replaceChildren();
    part("problem").textContent = (value && value.problem) || "";
    part("found").hidden = !value || !value.segments;
    if (part("found").hidden) return;
    part("title").textContent = value.title;
    part("status").textContent = value.status;
    part("lanes").replaceChildren(...value.lanes.map((lane) => make("li", "", described(lane))));
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
    node.title = `${segment.tokens} tokens: ${segment.a} steps in A, ${segment.b} in B`;
    if (!segment.saved) return node;
    node.dataset.saved = segment.saved > 0 ? "b" : "a";
    node.style.setProperty(
      "--share",
      Math.min(1, Math.abs(segment.saved) / segment.tokens) * 100 + "%",
    );
    node.append(
      make("small", "", Math.abs(segment.saved) + (segment.saved > 0 ? " saved" : " lost")),
    );
    return node;
  }

  paint();
  watch("value", () => {
    paint();
    bring(root);
  });
}
