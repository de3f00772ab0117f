// @ts-check
// The plan of a comparison: prompts, a method with the values of one or two settings, and other methods.
import { counted, foreign, make } from "../kit/dom.js";
import { inputs } from "../watch/asked.js";

const ROUNDS = 3;

/**
 * A button that is on or off.
 * @param {string} label
 * @param {boolean} on
 * @param {() => void} changed
 */
function chip(label, on, changed) {
  const node = make("button", "ouro-toggle", label);
  node.type = "button";
  node.setAttribute("aria-pressed", String(on));
  node.addEventListener("click", () => {
    node.setAttribute("aria-pressed", String(node.getAttribute("aria-pressed") === "false"));
    changed();
  });
  return node;
}

/**
 * @param {string} label
 * @param {[string, string][]} options  value and label
 * @param {() => void} changed
 */
function choice(label, options, changed) {
  const node = make("select", "ouro-input");
  node.setAttribute("aria-label", label);
  node.append(...options.map(([value, text]) => new Option(text, value)));
  node.addEventListener("change", changed);
  return node;
}

/** @param {HTMLElement} group */
const pressed = (group) =>
  [...group.querySelectorAll('[aria-pressed="true"]')].map((node) => node.textContent);

export class CompareForm {
  /**
   * @param {HTMLElement} root
   * @param {{ methods: any[], examples: { label: string, prompt: string }[], most: number }} props
   * @param {{ changed: () => void, measure: (plan: object) => void, stop: () => void }} acts
   */
  constructor(root, props, acts) {
    this.props = props;
    this.acts = acts;
    /** @param {string} className */
    const part = (className) => root.querySelector(".ouro-compare-" + className);
    this.own = foreign(part("own"));
    this.examples = part("examples");
    this.examples.append(
      ...props.examples.map(({ label }) => chip(label, false, () => this.changed())),
    );
    this.method = choice(
      "Method",
      props.methods.map(({ id, name }) => [id, name]),
      () => this.vary(),
    );
    part("method").append(this.method);
    this.axes = [...root.querySelectorAll(".ouro-compare-axis")].map((box, number) => {
      const select = choice(number ? "And vary" : "Vary", [], () => this.offer(number));
      const values = make("div", "ouro-row");
      values.setAttribute("role", "group");
      box.append(select, values);
      return { select, values };
    });
    this.others = part("others");
    this.beside = part("more").querySelector("summary");
    this.tokens = part("tokens");
    this.tokens.max = String(props.most);
    this.count = part("count");
    this.go = part("go");
    this.stop = part("stop");
    this.own.addEventListener("input", () => this.changed());
    this.tokens.addEventListener("input", () => this.changed());
    this.go.addEventListener("click", () => {
      const plan = this.plan();
      if (!plan.prompts.length) this.own.focus();
      acts.measure(plan);
    });
    this.stop.addEventListener("click", () => acts.stop());
    document.addEventListener("ouro:lacking", () => this.hide());
  }

  kind() {
    return this.props.methods.find(({ id }) => id === this.method.value);
  }

  /**
   * Set the choices to those of a comparison that is shown.
   * @param {{ prompts: string[], method: string, axes: { name: string, values: string[] }[],
   *   others: string[], tokens: number }} shown
   */
  set({ prompts, method, axes, others, tokens }) {
    this.tokens.value = String(Math.min(tokens, this.props.most));
    const known = this.props.examples.map(({ prompt }) => prompt);
    [...this.examples.children].forEach((node, n) =>
      node.setAttribute("aria-pressed", String(prompts.includes(known[n]))),
    );
    this.own.value = prompts.filter((prompt) => !known.includes(prompt)).join("\n");
    this.method.value = method;
    this.others.replaceChildren();
    this.vary();
    axes.forEach(({ name, values }, number) => {
      this.axes[number].select.value = name;
      this.offer(number, values);
    });
    for (const node of this.others.children)
      node.setAttribute("aria-pressed", String(others.includes(node.dataset.method)));
    this.changed();
  }

  /** Offer the settings of the method, and the other methods. */
  vary() {
    /** @type {[string, string][]} */
    const settings = this.kind().settings.map((/** @type {any} */ one) => [one.name, one.label]);
    this.axes.forEach(({ select }, number) => {
      /** @type {[string, string][]} */
      const options = number ? [["", "nothing else"], ...settings] : settings;
      select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
      this.offer(number);
    });
    const before = new Set(pressed(this.others));
    const others = this.props.methods.filter(({ id }) => id !== this.method.value);
    this.others.replaceChildren(
      ...others.map(({ id, name }) => {
        const node = chip(name, before.has(name), () => this.changed());
        node.dataset.method = id;
        return node;
      }),
    );
    this.hide();
  }

  /** Hide the methods for which the models lack something. */
  hide() {
    for (const node of [...this.method.options, ...this.others.children])
      node.hidden = node.disabled = (node.dataset.method || node.value) in inputs.lacking;
    const options = [...this.method.options];
    if (this.method.selectedOptions[0]?.disabled) {
      this.method.value = options.find((option) => !option.disabled)?.value || "";
      this.vary();
    } else this.changed();
  }

  /**
   * Offer the values of a setting.
   * @param {number} number  of the axis
   * @param {string[] | undefined} chosen
   */
  offer(number, chosen = undefined) {
    const { select, values } = this.axes[number];
    const setting = this.kind().settings.find(
      (/** @type {any} */ one) => one.name === select.value,
    );
    const on = new Set(chosen || setting?.first || []);
    const all = [...new Set([...(setting?.values || []), ...(chosen || [])])];
    values.setAttribute("aria-label", `Values of ${setting?.label || "nothing"}`);
    values.replaceChildren(...all.map((value) => chip(value, on.has(value), () => this.changed())));
    this.changed();
  }

  /** Return the visitor's choices. */
  plan() {
    const chosen = pressed(this.examples);
    const { examples } = this.props;
    const own = this.own.value.trim();
    return {
      prompts: [
        ...(own ? [own] : []),
        ...examples.filter(({ label }) => chosen.includes(label)).map(({ prompt }) => prompt),
      ],
      method: this.method.value,
      axes: this.axes
        .filter(({ select }) => select.value)
        .map(({ select, values }) => [select.value, pressed(values)]),
      others: [...this.others.querySelectorAll('[aria-pressed="true"]:enabled')].map(
        (node) => node.dataset.method,
      ),
      tokens: Number(this.tokens.value),
    };
  }

  /**
   * Return whether a cell is left out by the chips.
   * @param {string} method
   * @param {{ name: string }[]} axes
   * @param {string[]} values
   */
  hides(method, axes, values) {
    const plan = this.plan();
    const same = plan.method === method && plan.axes.length === axes.length;
    return (
      same &&
      values.some(
        (value, n) => plan.axes[n][0] === axes[n].name && !plan.axes[n][1].includes(value),
      )
    );
  }

  changed() {
    const { prompts, axes, others, tokens } = this.plan();
    const cells = axes.reduce((product, [, values]) => product * values.length, 1);
    const rows = (axes.length ? cells : 0) + others.length + 1;
    const runs = rows * prompts.length * ROUNDS;
    this.beside.textContent = `Beside other methods (${others.length})`;
    this.count.textContent =
      `${counted(rows, "row")}, ${counted(prompts.length, "prompt")}, ${ROUNDS} rounds: ` +
      `${counted(runs, "run")} of at most ${counted(tokens, "token")}`;
    this.acts.changed();
  }

  /** @param {boolean} on */
  busy(on) {
    this.go.hidden = on;
    this.stop.hidden = !on;
  }
}
