// @ts-check
// The page's address. Each tab has its own address behind the #, also the tabs of the Lab, so that
// Back and Forward move through them. When the page is left, the browser keeps the inputs, and what
// the views add, for a reload or for the way back. Triggers `go` when the address names another
// tab.
import { foreign, tell } from "./dom.js";
import { store } from "./page_storage.js";
/** @import { Mount } from "./types" */

/**
 * The open tab and the inputs, which the page reports also before the header is mounted. `led`:
 * tabs that the history leads to and that are not open yet.
 * @type {{ inputs: any, tab: string, led: string[], told: () => void }}
 */
const page = { inputs: null, tab: "", led: [], told: () => {} };

/** @param {string} tab */
export function opened(tab) {
  page.tab = tab;
  page.told();
}

/** @param {any[]} inputs */
export function changed(inputs) {
  page.inputs = inputs;
}

/**
 * Facts: `pages`, the place of each page; `first`, the first page of each place that has pages;
 * `moved`, the tabs of earlier addresses.
 * @type {Mount}
 */
export function mount(element, props, watch, trigger) {
  const inner = { ...props.first }; // the page that is open in each place
  /**
   * Return the page whose address stands for a tab: the first page of a place that has pages.
   * @param {string} tab
   * @returns {string}
   */
  const exact = (tab) => props.first[tab] || tab;
  /**
   * Return the tab in the address; something that is open in it may follow.
   * @returns {string}
   */
  const said = () => {
    const name = location.hash.split("/")[0].slice(1);
    return props.tabs.find((/** @type {string} */ tab) => tab === (props.moved[name] || name));
  };
  const named = () => exact(said() || props.tabs[0]);
  let awaited = said() ? named() : ""; // the page begins with the first tab

  page.told = () => {
    if (!page.tab) return;
    if (props.pages[page.tab]) inner[props.pages[page.tab]] = page.tab;
    const here = inner[page.tab] || page.tab;
    const wanted = awaited || named();
    // a place on the way to its page
    if (here !== wanted && page.tab === props.pages[wanted]) return;
    if (awaited && here !== awaited) return;
    awaited = "";
    if (here === named()) page.led = [];
    else if (page.led.includes(here))
      return; // the history led here and has gone on since
    else history.pushState(null, "", location.pathname + location.search + "#" + here);
  };
  page.told();
  addEventListener("popstate", () => {
    page.led.push(named());
    trigger("go", {});
  });
  addEventListener("pagehide", () => {
    const left = { inputs: page.inputs, query: location.search };
    tell("ouro:leave", left);
    store(props.store, left);
  });
  element.querySelector(".ouro-skip").addEventListener("click", () => {
    const open = [...document.querySelectorAll("[role=tabpanel]")].filter((node) =>
      node.checkVisibility(),
    );
    const result = open.at(-1).querySelector(".ouro-result") || open.at(-1);
    result.tabIndex = -1;
    result.focus();
    result.scrollIntoView({ block: "start" });
  });
  // A place begins at its top, however far the one before it was scrolled.
  document.addEventListener("click", ({ target }) => {
    const tab = /** @type {Element} */ (target).closest(".ouro-places > .tab-wrapper [role=tab]");
    if (tab) scrollTo({ top: 0, behavior: "instant" });
  });
  // A page that the browser kept whole has lost its connection to the server.
  addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  const fields = 'textarea[dir="ltr"], input[dir="ltr"]'; // as Gradio makes them
  const free = () => document.querySelectorAll(fields).forEach(foreign);
  free();
  new MutationObserver(free).observe(document.body, { childList: true, subtree: true });
}
