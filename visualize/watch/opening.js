// @ts-check
// Shows the opening until the page behind it plays. It is in the page's HTML, before any module, so
// it imports nothing.

(() => {
  const opening = document.getElementById("ouro-opening");
  const longest = Number(opening.dataset.longest);
  const query = new URLSearchParams(location.search);
  const theme = query.get("__theme");
  const text = opening.querySelector("pre");
  const words = [...text.querySelectorAll("i")];
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
  /** @param {HTMLElement} word */
  const follow = (word) => {
    const below = word && word.offsetTop > text.scrollTop + text.clientHeight - 40;
    if (below) text.scrollTop = word.offsetTop - text.clientHeight / 2;
  };
  follow(words[0]);
  const timer = setInterval(() => {
    const spent = performance.now() - begun;
    const run = document.querySelector("#token-view .ouro-run[data-done]");
    const ready = run && getComputedStyle(run).visibility === "visible";
    if (ready || (spent > longest && document.querySelector(".gradio-container"))) {
      clearInterval(timer);
      opening.remove();
      return;
    }
    follow(words.findLast((word) => 1000 * parseFloat(word.style.animationDelay) <= spent));
  }, 50);
})();
