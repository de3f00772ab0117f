// @ts-check
// How discarded tokens return: a snake along four places - a draft, the target's answers, the phrase
// pool, a later draft - bites its own tail.
import { draw, foreign, make, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

const PARTS = ["thrown", "answered", "stored", "returned"];

/** @type {Mount} */
export function mount(element, { value }) {
  /** @type {{ places: { title: string, tokens: { text: string, look: string }[] }[] }} */
  const { places } = JSON.parse(value);
  const box = make("ol", "ouro-snake-box ouro-list");
  const body = draw("svg", {
    viewBox: "0 0 100 100",
    preserveAspectRatio: "none",
    class: "ouro-snake-body",
    "aria-hidden": "true",
  });
  const ring = "M32 5H91Q97 5 97 13V87Q97 95 91 95H9Q3 95 3 87V13Q3 5 9 5H27";
  for (const look of ["ouro-snake-skin", "ouro-snake-scales"])
    body.append(draw("path", { d: ring, class: look, "vector-effect": "non-scaling-stroke" }));
  const head = draw("svg", {
    viewBox: "0 0 40 28",
    class: "ouro-snake-head",
    "aria-hidden": "true",
  });
  head.append(
    draw("path", { d: "M2 14Q8 2 24 4L38 10L28 14L38 18L24 24Q8 26 2 14z" }),
    draw("circle", { cx: 20, cy: 9, r: 2.4 }),
  );
  places.forEach(({ title, tokens }, n) => {
    const place = make("li", "ouro-snake-place ouro-box"),
      line = foreign(make("p", "ouro-snake-tokens ouro-wrap ouro-size-s ouro-mono ouro-flat"));
    place.dataset.part = PARTS[n];
    for (const { text, look } of tokens) {
      const chip = make("span", "ouro-token-chip ouro-bordered", visible(text));
      chip.dataset.look = look;
      line.append(chip);
    }
    place.append(make("p", "ouro-snake-title ouro-size-m ouro-strong", title), line);
    box.append(place);
  });
  const whole = make("div", "ouro-snake-whole");
  whole.append(body, head, box);
  element.append(
    whole,
    make(
      "figcaption",
      "",
      "Clockwise from the upper left. Struck through: discarded. Framed: the phrase, from where " +
        "it was thrown away to where it is accepted.",
    ),
  );
}
