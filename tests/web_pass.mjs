// Lets Python call the models of pass.js, in Node and in Chromium: a request is a list of calls
// as JSON, and the answer has the result of the last one. In Node requests are lines of input.
import { Pass } from "../visualize/live/pass.js";

const inNode = Boolean(globalThis.process);
const objects = [];
const plain = (/** @type {any} */ value) =>
  ArrayBuffer.isView(value) ? [...value].map((n) => (Number.isFinite(n) ? n : String(n))) : value;

/** @param {string} file */
async function read(file) {
  if (!inNode) return (await fetch(file)).arrayBuffer();
  const { buffer, byteOffset, length } = (await import("node:fs")).readFileSync(file);
  return buffer.slice(byteOffset, byteOffset + length);
}

/** @type {Record<string, (...values: any[]) => any>} */
const calls = {
  load: async (file) => objects.push(await Pass.load(await read(file))) - 1,
  model: async (pass, file, name, target) =>
    objects.push(objects[pass].model(await read(file), name, objects[target])) - 1,
  facts: (model) => ({ ...objects[model], pass: null }),
  run: (model, ...values) => objects.push(objects[model].run(...values)) - 1,
  // The bits of logits, because JSON has no infinity.
  bits: (logits, row) => [...new Int32Array(objects[logits].row(row).buffer)],
  free: (logits) => {
    objects[logits].free();
    delete objects[logits];
  },
};
for (const name of ["reserve", "keep", "follow", "argmax", "logarithm", "draw"])
  calls[name] = (object, ...values) => objects[object][name](...values);
calls.top = (object, ...values) => {
  const { tokens, scores } = objects[object].top(...values);
  return { tokens: plain(tokens), scores: plain(scores) };
};

/** @param {string} line */
export async function answer(line) {
  try {
    let result;
    for (const [name, ...values] of JSON.parse(line)) result = plain(await calls[name](...values));
    const finite = typeof result !== "number" || Number.isFinite(result);
    return JSON.stringify({ result: finite ? result : String(result) });
  } catch (error) {
    return JSON.stringify({ error: String(error) });
  }
}

if (inNode) {
  const { createInterface } = await import("node:readline");
  for await (const line of createInterface({ input: process.stdin }))
    console.log(await answer(line));
}
