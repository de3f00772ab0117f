// How far each text was shown, in tokens, by its prompt: methods that keep the target's text write
// the same one. It is kept for as long as the browser's tab, prompts as numbers.
const KEY = "ouro-seen";
const seen = new Map();
try {
  for (const [prompt, tokens] of JSON.parse(sessionStorage.getItem(KEY)) || [])
    seen.set(prompt, tokens);
} catch {
  // a page that may keep nothing, or has kept something else
}

// 32-bit FNV-1a of a prompt's UTF-16 units
function key(prompt) {
  let hash = 0x811c9dc5;
  for (const unit of (prompt || "").trim().split(""))
    hash = Math.imul(hash ^ unit.charCodeAt(0), 0x01000193);
  return hash;
}

export const seenTokens = (prompt) => seen.get(key(prompt)) || 0;

export function markSeen(prompt, tokens) {
  if (!(tokens > seenTokens(prompt))) return;
  seen.set(key(prompt), tokens);
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...seen]));
  } catch {
    // then it is known until the page is left
  }
}
