// "Be the draft": the text so far by who wrote it, and what became of the last guess.
import { inline, make } from "./dom.js";

export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-play");
  const part = (name) => root.querySelector(".ouro-play-" + name);
  const KEY = {
    draft: "yours, accepted",
    struck: "yours, rejected",
    correction: "corrected by the target",
    bonus: "added by the target",
  };

  function token({ text, look }) {
    if (look === "given") return make("span", "ouro-prompt", text);
    const node = make(
      "span",
      look === "struck" ? "ouro-play-struck" : "ouro-token",
      look === "struck" ? inline(text) : text,
    );
    node.dataset.look = look;
    node.title = KEY[look];
    return node;
  }

  function key() {
    return Object.entries(KEY).map(([look, words]) => {
      const item = make("li"),
        sample = make("span", look === "struck" ? "ouro-play-struck" : "ouro-token", "words");
      sample.dataset.look = look;
      item.append(sample, " " + words);
      return item;
    });
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    root.dataset.done = String(value.done);
    root.dataset.rounds = String(value.round);
    part("status").textContent = value.status;
    part("said").textContent = value.said;
    part("text").replaceChildren(...value.text.map(token));
    part("text").scrollTop = part("text").scrollHeight;
  }

  part("key").append(...key());
  paint();
  watch("value", paint);
}
