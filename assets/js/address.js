// The page's address: each tab has its own, behind the #, so that Back and Forward go through the tabs. And what a visitor would
// lose when the page is loaded anew is kept in the browser until then: the inputs, and what the views hand over.
// Triggers `go` where the address names another tab.
import { tell } from "./dom.js";

const page = { inputs: null, tab: "", led: [], told: () => {} }; // led: tabs that the history leads to, not yet open

// The page says which tab is open and what stands in its inputs, also before the header is mounted.
export function opened(tab) {
  page.tab = tab;
  page.told();
}

export function changed(inputs) {
  page.inputs = inputs;
}

export function mount(element, props, watch, trigger) {
  const wanted = location.hash.slice(1), named = () => props.tabs.find((tab) => location.hash === "#" + tab) || props.tabs[0];
  let awaited = props.tabs.includes(wanted) ? wanted : ""; // the page begins with the first tab

  page.told = () => {
    if (!page.tab || (awaited && page.tab !== awaited)) return;
    awaited = "";
    if (page.tab === named()) page.led = [];
    else if (page.led.includes(page.tab)) return; // the history led here and has gone on since: the address is ahead of the tab
    else history.pushState(null, "", location.pathname + location.search + "#" + page.tab);
  };
  page.told();
  addEventListener("popstate", () => {
    page.led.push(named());
    trigger("go", {});
  });
  addEventListener("pagehide", () => {
    const kept = { inputs: page.inputs };
    tell("ouro:leave", kept);
    try {
      sessionStorage.setItem(props.store, JSON.stringify(kept));
    } catch {
      sessionStorage.removeItem(props.store); // too large, or forbidden
    }
  });
}
