// A slider with a step back and a step forth, for pictures that are gone through place by place.
import { make } from "./dom.js";

// label: what is moved along; draw(at) paints a place; first: the number of the first place as it
// is told. Gives {element, go(at),
// range(most, at)}.
export function stepper(label, draw, first = 0) {
  const element = make("div", "ouro-stepper"),
    name = make("label"),
    input = make("input"),
    value = make("output");
  const button = (text, by, said) => {
    const made = make("button", "", text);
    made.type = "button";
    made.setAttribute("aria-label", said);
    made.addEventListener("click", () => go(Number(input.value) + by));
    return made;
  };
  const back = button("◀", -1, `${label}: one back`),
    on = button("▶", 1, `${label}: one further`);
  Object.assign(input, { type: "range", min: 0, max: 0, step: 1, value: 0 });
  name.append(make("span", "", label), input);
  element.append(back, name, on, value);

  function go(at) {
    input.value = String(Math.max(0, Math.min(Number(input.max), at)));
    value.textContent = `${Number(input.value) + first} of ${Number(input.max) + first}`;
    input.setAttribute("aria-valuetext", value.textContent);
    back.disabled = Number(input.value) === 0;
    on.disabled = input.value === input.max;
    draw(Number(input.value));
  }

  input.addEventListener("input", () => go(Number(input.value)));
  return {
    element,
    go,
    range(most, at) {
      input.max = String(most);
      go(at);
    },
  };
}
