// @ts-check
// Files without the server's disk. A file from the server is made in the browser, and the browser
// reads a file that is opened and sends it as text.
import { make } from "./dom.js";

/** @param {number} bytes */
const sized = (bytes) =>
  bytes < 1e6 ? Math.ceil(bytes / 1e3) + " kB" : (bytes / 1e6).toFixed(1) + " MB";

/**
 * Add a link to a file and click it.
 * @param {HTMLElement} links
 * @param {{ name: string, type: string, text: string }} file
 */
export function handOver(links, { name, type, text }) {
  const blob = new Blob([text], { type });
  const link = make("a", "ouro-save-link ouro-size-s", `${name}, ${sized(blob.size)}`);
  Object.assign(link, { href: URL.createObjectURL(blob), download: name });
  links.append(link);
  link.click();
}

/** @param {HTMLElement} links */
export function forget(links) {
  for (const old of links.querySelectorAll("a")) URL.revokeObjectURL(old.href);
  links.replaceChildren();
}

/**
 * Return name and text of a file. If it has more than `limit` bytes, return undefined and say so.
 * @param {File} file
 * @param {number} limit
 * @param {string} what  a noun for such a file
 * @param {HTMLElement} told  for messages
 */
export async function read(file, limit, what, told) {
  if (!file) return;
  if (file.size > limit) {
    const size = (file.size / 1e6).toFixed(1),
      most = (limit / 1e6).toFixed(0);
    told.textContent = `That file has ${size} MB; ${what} may have ${most} MB at most.`;
    return;
  }
  told.textContent = `Reading ${file.name} …`;
  return { name: file.name, text: await file.text() };
}
