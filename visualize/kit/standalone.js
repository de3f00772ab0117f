// @ts-check
// A page without a server, which must find out whether it is dark.

/** Follow the system's colour scheme. */
export function followColourScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.body.classList.toggle("dark", dark.matches);
  follow();
  dark.addEventListener("change", follow);
}

/**
 * Return what the page's HTML contains for its scripts.
 * @returns {any}
 */
export const pageFacts = () => JSON.parse(document.getElementById("facts").textContent);
