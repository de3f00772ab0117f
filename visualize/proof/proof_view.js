// @ts-check
// The proof: the count of each drawn text beside the target's probability, while the seeds run.
import { bring, foreign, make, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-proof");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-proof-" + name);
  const state = { proof: "", stopped: "" };
  /** @param {number} value */
  const exact = (value) => (100 * value).toFixed(1) + "%";

  /**
   * @param {{ text: string | null, count: number, seen: number, p: number }} one
   * @param {number} most
   */
  function row(one, most) {
    const line = make("li"),
      bar = make("span", "ouro-dice-bar"),
      fill = make("i"),
      mark = make("b");
    /** @param {number} value */
    const place = (value) => Math.min(100, (100 * value) / most) + "%";
    fill.style.width = place(one.seen);
    mark.style.left = place(one.p);
    bar.append(fill, mark);
    bar.setAttribute("aria-hidden", "true");
    line.dataset.count = String(one.count);
    const name = make(
      "span",
      one.text === null ? "ouro-proof-other ouro-quiet" : "ouro-proof-text ouro-mono",
      one.text === null ? "all others" : visible(one.text),
    );
    if (one.text !== null) foreign(name);
    name.title = name.textContent;
    line.append(
      name,
      bar,
      make(
        "span",
        "ouro-dice-numbers",
        `${one.count} drawn · ${exact(one.seen)} · p ${exact(one.p)}`,
      ),
    );
    return line;
  }

  function paint() {
    const value = props.value && JSON.parse(props.value);
    if (!value) return;
    if (value.stopped) {
      if (root.dataset.done !== "false") return;
      state.stopped = state.proof;
      root.dataset.done = "stopped";
      part("status").textContent = "Stopped. What was counted stays, and is not judged.";
      part("verdict").textContent = "";
      return;
    }
    // what was under way when it was stopped comes late
    if (value.proof && value.proof === state.stopped) return;
    const begun = value.proof && value.proof !== state.proof;
    state.proof = value.proof;
    root.dataset.done = value.proof ? String(value.done) : "";
    root.dataset.verdict = value.off === null ? "" : value.off ? "off" : "fits";
    part("status").textContent = value.status;
    part("bar").max = value.seeds || 1;
    part("bar").value = value.drawn;
    const most =
      1.25 * Math.max(0, ...value.rows.map((/** @type {any} */ one) => Math.max(one.p, one.seen)));
    part("bars").replaceChildren(...value.rows.map((/** @type {any} */ one) => row(one, most)));
    part("key").hidden = !value.rows.length;
    part("verdict").textContent = value.verdict;
    // Not on every update: a screen reader would read without end.
    part("said").textContent = value.done ? value.verdict : "";
    part("drafts").textContent = value.drafts;
    if (begun) bring(root);
  }

  paint();
  watch("value", paint);
}
