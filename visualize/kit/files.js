// Files without the server's disk: what it hands over becomes one in the browser, and one that is
// opened is read here and handed over as text.
import { make } from "./dom.js";

const sized = (bytes) =>
  bytes < 1e6 ? Math.ceil(bytes / 1e3) + " kB" : (bytes / 1e6).toFixed(1) + " MB";

// A link to the file of {name, type, text}, which takes the place of those before it; clicked.
export function handOver(links, { name, type, text }) {
  const blob = new Blob([text], { type });
  const link = make("a", "ouro-save-link", `${name}, ${sized(blob.size)}`);
  Object.assign(link, { href: URL.createObjectURL(blob), download: name });
  links.append(link);
  link.click();
}

export function forget(links) {
  for (const old of links.querySelectorAll("a")) URL.revokeObjectURL(old.href);
  links.replaceChildren();
}

// Name and text of a file; undefined, and `told` says so, where it is larger than `limit` bytes.
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
