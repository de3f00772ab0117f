// @ts-check
// A page without a server, which must find out whether it is dark.

/** Follow the system's colour scheme. */
export function followColourScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.body.classList.toggle("dark", dark.matches);
  follow();
  dark.addEventListener("change", follow);
}

/** Keep the query of the address, such as `?student=NAME`, from page to page. */
export function keepQuery() {
  for (const link of document.querySelectorAll(".ouro-site-nav a"))
    if (link instanceof HTMLAnchorElement) link.search = location.search;
}

/**
 * Return the data for the scripts in the page's HTML.
 * @returns {any}
 */
export const pageFacts = () => JSON.parse(document.getElementById("facts").textContent);

/** Run the library of the charts that a page carries, packed as its HTML. */
export async function unpackPlotly() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (sign) =>
    sign.charCodeAt(0),
  );
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(plain).text();
  document.head.append(script);
}
