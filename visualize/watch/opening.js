// @ts-check
// Shows the opening until the page behind it plays. It is in the page's HTML, before any module, so
// it imports nothing.

(() => {
  const opening = document.getElementById("ouro-opening");
  const longest = Number(opening.dataset.longest);
  const query = new URLSearchParams(location.search);
  const theme = query.get("__theme");
  const [loaded] = /** @type {PerformanceNavigationTiming[]} */ (
    performance.getEntriesByType("navigation")
  );
  const begun = performance.now();
  let restored = false;
  try {
    restored =
      loaded?.type !== "navigate" && sessionStorage.getItem(opening.dataset.store) !== null;
  } catch {
    // storage is forbidden
  }
  const first = ["", "#watch"].includes(location.hash) && !query.has("prompt");
  if (restored || !first) {
    opening.remove();
    return;
  }
  opening.dataset.begun = String(begun);
  if (["light", "dark"].includes(theme)) opening.style.colorScheme = theme;
  const timer = setInterval(() => {
    const spent = performance.now() - begun;
    const run = document.querySelector("#token-view .ouro-run[data-done]");
    const ready = run && getComputedStyle(run).visibility === "visible";
    if (ready || (spent > longest && document.querySelector(".gradio-container"))) {
      clearInterval(timer);
      opening.remove();
    }
  }, 50);
})();
