// How far each text was shown, in tokens, by its prompt: methods that keep the target's text write
// the same one. It is kept for as long as the browser's tab, prompts as numbers.
import { recall, store } from "./page_storage.js";

const KEY = "ouro-seen";
const seen = new Map();
try {
  for (const [prompt, tokens] of recall(KEY) || []) seen.set(prompt, tokens);
} catch {
  // something else was stored
}

// 32-bit FNV-1a of a prompt's UTF-16 units
function key(prompt) {
  let hash = 0x811c9dc5;
  for (const unit of (prompt || "").trim().split(""))
    hash = Math.imul(hash ^ unit.charCodeAt(0), 0x01000193);
  return hash;
}

export const shownTokens = (prompt) => seen.get(key(prompt)) || 0;

export function markShown(prompt, tokens) {
  if (!(tokens > shownTokens(prompt))) return;
  seen.set(key(prompt), tokens);
  store(KEY, [...seen]); // or it is known until the page is left
}
