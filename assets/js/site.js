// The static gallery: which views a page has, and where they get what they show. Needs nothing but the bundle before it.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.body.classList.toggle("dark", dark.matches);
dress();
dark.addEventListener("change", dress);

const still = () => {};
const given = window.ouroSite;
const waiting = new Map();

// Runs are scripts, because a page that was opened from disk may fetch nothing else.
window.ouroRun = (name, run) => {
  waiting.get(name)(run);
};
function load(name) {
  return new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const node = document.createElement("script");
    node.src = "runs/" + name + ".js";
    node.onerror = () => reject(new Error(name));
    document.head.append(node);
  });
}

const props = (value) => ({ value: value && JSON.stringify(value), looks: given.looks, words: given.words });
const place = (name) => document.getElementById(name);

if (place("learn")) ouroLearn(place("learn"), { ...props({ chapters: given.chapters, questions: given.questions }), load }, still, still);
if (place("theory")) ouroTheory(place("theory"), props(null), still, still);
if (place("gallery")) {
  const view = { props: props(null), changed: still };
  ouroTokens(place("run"), view.props, (_, changed) => (view.changed = changed), still);
  const open = async ({ name }) => {
    view.props.value = JSON.stringify(await load(name));
    view.changed();
    history.replaceState(null, "", "#" + name);
    place("run").scrollIntoView({ block: "start" });
  };
  ouroGallery(place("gallery"), { ...props({ entries: given.entries }), open }, still, still);
  const first = given.entries.find((entry) => entry.name === location.hash.slice(1)) || given.entries[1];
  load(first.name).then((run) => {
    view.props.value = JSON.stringify(run);
    view.changed();
  });
}
