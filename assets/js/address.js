// The page's address: each tab has its own, behind the #, so that Back and Forward go through the tabs. And what a visitor would
// lose when the page is loaded anew is kept in the browser until then: the inputs, and what the views hand over.
// Needs dom.js. Triggers `go` where the address names another tab.
let awaited = props.tabs.includes(location.hash.slice(1)) ? location.hash.slice(1) : ""; // the page begins with the first tab
let inputs = null;

const named = () => (props.tabs.includes(location.hash.slice(1)) ? location.hash.slice(1) : props.tabs[0]);

document.addEventListener("ouro:tab", ({ detail }) => {
  if (awaited && detail !== awaited) return;
  awaited = "";
  if (detail !== named()) history.pushState(null, "", location.pathname + location.search + "#" + detail);
});
addEventListener("popstate", () => trigger("go", {}));

document.addEventListener("ouro:inputs", ({ detail }) => (inputs = detail));
addEventListener("pagehide", () => {
  const kept = { inputs };
  tell("ouro:leave", kept);
  try {
    sessionStorage.setItem(props.store, JSON.stringify(kept));
  } catch {
    sessionStorage.removeItem(props.store); // too large, or forbidden
  }
});
