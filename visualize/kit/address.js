// The page's address: each place has its own, behind the #, and so has each page of a place that
// has pages, so that Back and Forward go through them. And what a visitor would lose when the page
// is left is kept in the browser for a reload, or for the way back: the inputs, and what the views
// hand over.
// Triggers `go` where the address names something else.
import { foreign, tell } from "./dom.js";
import { store } from "./page_storage.js";

// led: tabs that the history leads to, not yet open
const page = { inputs: null, tab: "", led: [], told: () => {} };

// The page says which tab is open and what stands in its inputs, also before the header is mounted.
export function opened(tab) {
  page.tab = tab;
  page.told();
}

export function changed(inputs) {
  page.inputs = inputs;
}

// props.pages: the place of each page; props.first: the page that a place opens with.
export function mount(element, props, watch, trigger) {
  const inner = { ...props.first }; // the page that is open in each place
  // a place that has pages is the address of its first
  const exact = (tab) => props.first[tab] || tab;
  // behind a tab may stand what is open in it
  const said = () => props.tabs.find((tab) => location.hash.split("/")[0] === "#" + tab);
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
  // A page that the browser has put aside whole has lost its line to the server.
  addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  const fields = 'textarea[dir="ltr"], input[dir="ltr"]'; // as Gradio makes them
  const free = () => document.querySelectorAll(fields).forEach(foreign);
  free();
  new MutationObserver(free).observe(document.body, { childList: true, subtree: true });
}
