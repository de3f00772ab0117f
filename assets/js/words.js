// The texts of the page: a view is handed those that it needs, by their keys.
// `{facts}` in a text are filled in; what depends on a number has a text for one and one for many.
export function wording(texts) {
  const say = (key, facts = {}) => (texts[key] || key).replace(/\{(\w+)\}/g, (_, name) => String(facts[name]));
  const several = (key, n) => say(key + (n === 1 ? ".one" : ".many"), { n });
  return { say, several };
}
