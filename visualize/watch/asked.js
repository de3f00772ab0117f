// @ts-check
// What the inputs ask for: the settings that are not at their defaults, and those that differ from
// the run that is shown.

/**
 * A declared setting of a method or of every run.
 * @typedef {{ name: string, label: string, help: string, value: any, auto?: boolean, low?: number,
 *   high?: number, step?: number, choices?: string[], most?: number, group?: string,
 *   silent?: boolean, memory?: boolean, sampled?: boolean }} Setting
 */
/** @typedef {{ method: string, of: Record<string, any>, run: Record<string, any> }} State */
/**
 * What a run was asked for; a setting that is left out had its default.
 * @typedef {{ prompt: string, method: string, settings: Record<string, any>,
 *   run: Record<string, any> }} Asked
 */

/**
 * The prompt in the box; the declarations and the values of the settings, which their view keeps;
 * and by method what the models lack for it.
 * @type {{ prompt: string, methods: Map<string, any>, run: Setting[], state: State,
 *   lacking: Record<string, string> }}
 */
export const inputs = {
  prompt: "",
  lacking: {},
  methods: new Map(),
  run: [],
  state: { method: "", of: {}, run: {} },
};

/** @param {any} value */
const text = (value) => String(value);

/** The settings of the chosen method, and the values of those that are not at their defaults. */
const own = () => ({
  settings: /** @type {Setting[]} */ (inputs.methods.get(inputs.state.method)?.settings || []),
  values: inputs.state.of[inputs.state.method]?.values || {},
});

/**
 * Return the settings whose values differ from other values, each with its value.
 * @param {Setting[]} settings
 * @param {Record<string, any>} values
 * @param {Record<string, any>} others
 */
const differing = (settings, values, others) =>
  settings
    .map(({ name, value }) => ({
      name,
      value: values[name] ?? value,
      other: others[name] ?? value,
    }))
    .filter(({ value, other }) => text(value) !== text(other));

/** The settings of every run, without those that do nothing at temperature 0. */
const common = () =>
  inputs.run.filter(({ sampled }) => !sampled || Number(inputs.state.run.temperature));

/** Return the settings of the next run that are not at their defaults, a predicted output too. */
export function changes() {
  const { settings, values } = own();
  const kind = inputs.methods.get(inputs.state.method);
  const value = kind?.predicted && inputs.state.of[inputs.state.method]?.predicted;
  return [
    ...differing(settings, values, {}),
    ...differing(common(), inputs.state.run, {}),
    ...(value ? [{ name: "predicted_output", value, other: "" }] : []),
  ];
}

/**
 * Return how the inputs differ from those of the run that a panel shows: whether in the prompt,
 * whether in the method, and the settings of its text. Null if its inputs are not known.
 * @param {HTMLElement} panel
 */
export function differences(panel) {
  const asked = panel.querySelector(".ouro-run")?.dataset.asked;
  if (!asked || !inputs.methods.size) return null;
  /** @type {Asked} */
  const shown = JSON.parse(asked);
  const { settings, values } = own();
  const method = inputs.state.method !== shown.method;
  const spoken = common().filter(({ silent }) => !silent);
  return {
    prompt: inputs.prompt !== shown.prompt,
    method,
    settings: [
      ...(method ? [] : differing(settings, values, shown.settings)),
      ...differing(spoken, inputs.state.run, shown.run),
    ],
  };
}

/**
 * Return whether a run of the inputs would be another one than the run that a panel shows.
 * @param {HTMLElement} panel
 */
export function asksAnew(panel) {
  const differs = differences(panel);
  const recorded = panel.querySelector(".ouro-run")?.dataset.recorded === "true";
  return !differs || recorded || differs.prompt || differs.method || differs.settings.length > 0;
}

/**
 * Return the label of the button that runs the inputs, beside the run that a panel shows.
 * @param {ReturnType<typeof differences>} differs
 */
export function runLabel(differs) {
  if (!differs) return "Generate";
  const { method, settings } = differs;
  if (method) return `Run ${inputs.methods.get(inputs.state.method).name}`;
  if (settings.length > 1) return `Run with ${settings.length} changes`;
  if (!settings.length) return "Generate";
  const [{ name, value }] = settings;
  const words = name.replaceAll("_", " ");
  if (typeof value === "boolean") return `Run ${value ? "with" : "without"} ${words}`;
  return `Run with ${words} ${value}`;
}
