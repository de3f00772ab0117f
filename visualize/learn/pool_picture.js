// @ts-check
// The phrase pool as it grows along a recorded run: phrases under their first token, with the
// source of each.
import { counted, make, visible } from "../kit/dom.js";
import { stepper } from "../kit/stepper.js";
/** @import { Mount } from "../kit/types" */

/** @type {Record<string, [string, string]>} */
const WHERE = {
  lookahead: ["window", "◇"],
  verification: ["verification", "▲"],
  history: ["earlier run", "○"],
};
const MOST = 60; // unused ones that are shown at once, the newest

/** @type {Mount} */
export function mount(element, { value }) {
  /**
   * @type {{ sizes: number[], whole: boolean, entries: { key: string, text: string, from: number,
   *   to: number | null, learned: string, used: number[] }[] }}
   */
  const { sizes, entries, whole } = JSON.parse(value);
  const list = make("dl", "ouro-pool-list ouro-size-s ouro-mono ouro-flat"),
    said = make("p", "ouro-picture-said"),
    scroll = make("div", "ouro-pool-scroll ouro-framed");
  said.setAttribute("role", "status");
  said.dataset.part = "result";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "Phrases by their first token");
  list.translate = false;
  scroll.append(list);
  const steps = stepper("After step", (at) => paint(at));

  /** @param {number} at */
  function paint(at) {
    const held = entries.filter(
      (entry) => entry.from < at && (entry.to === null || entry.to >= at),
    );
    /** @param {(typeof entries)[number]} entry */
    const used = (entry) => entry.used.some((step) => step < at);
    const newest = held.filter((entry) => !used(entry)).slice(-MOST);
    const shown = held.filter((entry) => used(entry) || newest.includes(entry));
    /** @type {Map<string, typeof entries>} */
    const keys = new Map();
    for (const entry of shown) keys.set(entry.key, [...(keys.get(entry.key) || []), entry]);
    list.replaceChildren();
    for (const [key, found] of keys) {
      const line = make("dd", "ouro-wrap ouro-flat");
      for (const entry of found) {
        const chip = make("span", "ouro-token-chip ouro-bordered"),
          [name, glyph] = WHERE[entry.learned];
        chip.dataset.learned = entry.learned;
        if (entry.from === at - 1) chip.dataset.fresh = "";
        if (used(entry)) chip.dataset.used = "";
        chip.append(make("i", "", glyph), visible(entry.text));
        chip.title =
          `learned from ${name}` +
          (entry.from < 0 ? "" : ` at step ${entry.from + 1}`) +
          (entry.used.length
            ? `; accepted at step ${entry.used.map((step) => step + 1).join(", ")}`
            : "");
        line.append(chip);
      }
      list.append(make("dt", "ouro-strong", visible(key)), line);
    }
    const fresh = held.filter((entry) => entry.from === at - 1).length,
      everUsed = entries.filter(used).length;
    const kinds = Object.entries(WHERE).map(([kind, [name]]) => [
      held.filter((entry) => entry.learned === kind).length,
      name,
    ]);
    const told = kinds
      .filter(([count]) => count)
      .map(
        ([count, name]) =>
          `${count} from ` +
          `${name === "window" ? "the window" : name === "earlier run" ? "an earlier run" : name}`,
      );
    said.textContent =
      (at
        ? `After step ${at} the pool holds ${counted(sizes[at - 1], "phrase")}. `
        : "Before the first step. ") +
      (whole
        ? ""
        : `${held.length} of them ${held.length === 1 ? "is" : "are"} known here, because ` +
          `the run proposed ${held.length === 1 ? "it" : "them"} at some step. `) +
      (told.length ? `Held: ${told.join(", ")}; ` : "") +
      `${fresh} new. Tokens of ${everUsed} were accepted so far` +
      (everUsed > held.filter(used).length ? ", some of phrases that are gone." : ".") +
      (held.length > shown.length ? ` Those and the newest ${MOST} are listed.` : "");
  }

  const kinds = [...new Set(entries.map((entry) => entry.learned))].map((kind) =>
    WHERE[kind].slice().reverse().join(" "),
  );
  element.append(
    steps.element,
    said,
    scroll,
    make(
      "figcaption",
      "",
      `First token, then the phrases kept under it: ${kinds.join(", ")}. Thick frame: new. ` +
        `✓: tokens of it were accepted by then.`,
    ),
  );
  steps.range(sizes.length, sizes.length);
}
