// @ts-check
// The worker of the live page: it loads Python, the tokenizer and the models, and computes runs.
// It gets {ask, number} and {stop}. It sends {loaded}, {measuring}, {started} or {failure}, and of a
// run {update, number} and {ended, number}.
// @ts-expect-error: it is beside this file in the site
import { loadPyodide } from "./pyodide/pyodide.js";
// @ts-expect-error: as above
import { Tokenizer } from "./tokenizers.min.js";
import { Pass, build } from "./pass.js";

/** @typedef {{ path: string, bytes: number, name?: string }} Packed */
/**
 * The list that `packing.py` writes to files.json.
 * @typedef {{ archives: Packed[], models: Record<string, Packed>, passes: Record<string, Packed>,
 *   tokenizer: Packed, rest: number, facts: string }} Files
 */

const here = new URL(".", self.location.href);
const send = (/** @type {object} */ message) => self.postMessage(message);
let newest = 0; // the number of the last ask, or 0 after a stop
let loaded = 0;

/** @param {any} error  a traceback, if it comes from Python */
function reason(error) {
  console.error(error);
  return String(error.message).trim().split("\n").at(-1);
}

/**
 * Fetch a file and report the progress of all files.
 * @param {Packed} file
 * @returns {Promise<ArrayBuffer>}
 */
async function fetched({ path, bytes }) {
  const answer = await fetch(new URL(path, here));
  if (!answer.ok) throw new Error(`${path} is missing: the server answers ${answer.status}`);
  const content = new Uint8Array(bytes);
  const reader = answer.body.getReader();
  let at = 0;
  for (let part; !(part = await reader.read()).done;) {
    content.set(part.value, at);
    at += part.value.length;
    send({ loaded: (loaded += part.value.length) });
  }
  return content.buffer;
}

/**
 * The tokenizer as `session.py` calls it.
 * @param {any} tokenizer
 */
const wordsOf = (tokenizer) => ({
  encode: (/** @type {string} */ text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
  /** @param {any} ids  a Python list */
  decode: (ids) =>
    tokenizer.decode(ids.toJs(), {
      skip_special_tokens: false,
      clean_up_tokenization_spaces: false,
    }),
  name: (/** @type {number} */ id) => tokenizer.id_to_token(id),
});

/** The browser's name and version, without the rest of its description. */
function browser() {
  const names = /(Firefox|Edg|Chrome|Version)\/(\d+)/.exec(navigator.userAgent);
  return names ? names[0].replace("Version", "Safari").replace("/", " ") : "browser";
}

/** Load everything, and return the session of session.py. */
async function begin() {
  /** @type {Files} */
  const files = await (await fetch(new URL("files.json", here))).json();
  const python = loadPyodide({ indexURL: new URL("pyodide/", here).href });
  python.catch(() => {}); // the wait for it below fails, too
  const archives = await Promise.all(files.archives.map(fetched));
  const words = JSON.parse(new TextDecoder().decode(await fetched(files.tokenizer)));
  const pass = await Pass.load(await fetched(files.passes[build()]));
  /** @type {Record<string, any>} */
  const models = {};
  for (const [name, file] of Object.entries(files.models))
    models[name] = pass.model(await fetched(file), file.name, models.target || null);
  const pyodide = await python;
  send({ loaded: loaded + files.rest });
  for (const archive of archives) pyodide.unpackArchive(archive, "wheel");
  send({ measuring: true });
  const session = pyodide.pyimport("visualize.live.session");
  const tokenizer = wordsOf(new Tokenizer(words, {}));
  const { target, draft, eagle3 } = models;
  return session.start(target, draft, eagle3, tokenizer, files.facts, browser());
}

/** Wait until waiting messages, such as {stop}, are read. */
const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

/**
 * Compute a run and send its updates.
 * @param {any} session
 * @param {{ number: number, ask: object }} asked
 */
async function run(session, { number, ask }) {
  if (number !== newest) return;
  const updates = session.run(JSON.stringify(ask));
  try {
    for (const update of updates) {
      send({ update, number });
      await breathe();
      if (number !== newest) break;
    }
  } catch (/** @type {any} */ error) {
    send({ update: JSON.stringify({ error: `The run failed: ${reason(error)}` }), number });
  }
  updates.close();
  updates.destroy();
  send({ ended: true, number });
}

/** @type {Promise<any>} */
const session = begin();
session.then(
  () => send({ started: true }),
  (error) => send({ failure: reason(error) }),
);
let last = /** @type {Promise<any>} */ (session.catch(() => {}));
self.addEventListener("message", ({ data }) => {
  newest = data.number || 0; // a run also gives way to the next one
  if (data.ask) last = last.then(async () => run(await session, data)).catch(() => {});
});
