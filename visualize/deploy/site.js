// @ts-check
// The static site: which views a page has, and where they get the runs that they show.
import { followColourScheme, keepQuery, pageFacts } from "../kit/standalone.js";
import { load } from "../gallery/recorded.js";
import { mount as mountGallery } from "../gallery/gallery_view.js";
import { mount as mountLearn } from "../learn/learn_view.js";
import { mount as mountTheory } from "../learn/theory_view.js";
import { mount as mountRun } from "../run/token_view.js";
/** @import { Props } from "../kit/types" */

const still = () => {};
const given = pageFacts();
/**
 * @param {object | null} value
 * @returns {Props}
 */
const props = (value) => ({ value: value && JSON.stringify(value), looks: given.looks });
/** @param {string} name */
const byId = (name) => document.getElementById(name);

/** Show the recorded runs, and the one that the address names. */
function mountTraces() {
  const view = { props: props(null), changed: still };
  mountRun(byId("run"), view.props, (_, changed) => (view.changed = changed), still);
  /** @param {{ name: string }} entry */
  const show = async ({ name }) => {
    view.props.value = JSON.stringify(await load(name));
    view.changed();
  };
  /** @param {{ name: string }} entry */
  const open = async (entry) => {
    await show(entry);
    history.replaceState(null, "", "#" + entry.name);
    byId("run").scrollIntoView({ block: "start" });
  };
  mountGallery(byId("gallery"), { ...props({ entries: given.entries }), open }, still, still);
  show(
    given.entries.find((/** @type {any} */ entry) => entry.name === location.hash.slice(1)) ||
      given.entries[1],
  );
}

followColourScheme();
keepQuery();
if (byId("learn"))
  mountLearn(
    byId("learn"),
    { ...props({ chapters: given.chapters, questions: given.questions, end: given.end }), load },
    still,
    still,
  );
if (byId("theory")) mountTheory(byId("theory"), props(null), still, still);
if (byId("gallery")) mountTraces();
