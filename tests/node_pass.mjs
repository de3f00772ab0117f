// Lets Python call the models of pass.js in Node: one request a line, as JSON, and one answer.
import fs from "node:fs";
import readline from "node:readline";
import { Pass, build } from "../visualize/live/pass.js";

const objects = [];
const plain = (/** @type {any} */ value) =>
  ArrayBuffer.isView(value) ? [...value].map((n) => (Number.isFinite(n) ? n : String(n))) : value;

/** @type {Record<string, (...values: any[]) => any>} */
const calls = {
  build,
  load: async (file) => objects.push(await Pass.load(fs.readFileSync(file))) - 1,
  model: (pass, file, name, target) => {
    const { buffer, byteOffset, length } = fs.readFileSync(file);
    const data = buffer.slice(byteOffset, byteOffset + length);
    return objects.push(objects[pass].model(data, name, objects[target])) - 1;
  },
  facts: (model) => objects[model],
  bytes: (pass) => objects[pass].bytes,
  run: (model, ...values) => objects.push(objects[model].run(...values)) - 1,
  // The bits of logits, because JSON has no infinity.
  bits: (logits, row) => [...new Int32Array(objects[logits].row(row).buffer)],
  free: (logits) => {
    objects[logits].free();
    delete objects[logits];
  },
  time: (model, repeats, ...values) => {
    let best = Infinity;
    for (let n = 0; n < repeats; n++) {
      const began = performance.now();
      objects[model].run(...values).free();
      best = Math.min(best, performance.now() - began);
    }
    return best;
  },
};
for (const name of ["reserve", "keep", "argmax", "logarithm", "draw"])
  calls[name] = (object, ...values) => objects[object][name](...values);
calls.top = (object, ...values) => {
  const { tokens, scores } = objects[object].top(...values);
  return { tokens: plain(tokens), scores: plain(scores) };
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const [name, ...values] = JSON.parse(line);
  try {
    const result = plain(await calls[name](...values));
    const answer = name === "facts" ? { ...result, pass: null } : result;
    console.log(JSON.stringify({ result: typeof answer === "number" && !Number.isFinite(answer) ? String(answer) : answer }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
