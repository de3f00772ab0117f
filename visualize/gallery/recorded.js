// @ts-check
// The recorded runs of the static site.

const waiting = new Map();

document.addEventListener("ouro:recorded", ({ detail }) => waiting.get(detail.name)(detail.run));

/**
 * Load a run. Runs are scripts, because a page that is opened from disk may fetch nothing else.
 * Each script sends its run in an event.
 * @param {string} name
 * @returns {Promise<object>}
 */
export function load(name) {
  return new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const node = document.createElement("script");
    node.src = "runs/" + name + ".js";
    node.onerror = () => reject(new Error(name));
    document.head.append(node);
  });
}
