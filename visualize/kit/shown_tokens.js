// @ts-check
// The number of tokens of each text that were shown, by the text's prompt: methods that keep the
// target's text write the same text. The browser's tab keeps the numbers, with prompts as hashes.
import { recall, store } from "./page_storage.js";

const KEY = "ouro-seen";
/** @type {Map<number, number>} */
const seen = new Map();
try {
  for (const [prompt, tokens] of recall(KEY) || []) seen.set(prompt, tokens);
} catch {
  // something else was stored
}

/**
 * Return the 32-bit FNV-1a hash of a prompt's UTF-16 units.
 * @param {string} prompt
 */
function key(prompt) {
  let hash = 0x811c9dc5;
  for (const unit of (prompt || "").trim().split(""))
    hash = Math.imul(hash ^ unit.charCodeAt(0), 0x01000193);
  return hash;
}

/**
 * @param {string} prompt
 * @returns {number}
 */
export const shownTokens = (prompt) => seen.get(key(prompt)) || 0;

/**
 * @param {string} prompt
 * @param {number} tokens
 */
export function markShown(prompt, tokens) {
  if (!(tokens > shownTokens(prompt))) return;
  seen.set(key(prompt), tokens);
  store(KEY, [...seen]);
}
