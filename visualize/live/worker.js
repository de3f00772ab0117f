// @ts-check
// The worker of the live page: it loads Python, the tokenizer and the models, and computes runs.
//
// It gets {ask} and {stop}, and sends {progress}, {ready}, {update}, {ended} and {missing}.
// @ts-expect-error: it is beside this file in the site
import { loadPyodide } from "./pyodide/pyodide.js";
// @ts-expect-error: as above
import { Tokenizer } from "./tokenizers.min.js";
import { Pass, build } from "./pass.js";

/** @typedef {{ path: string, bytes: number, name?: string }} Packed */
/**
 * What `packing.py` lists in files.json.
 * @typedef {{ archives: Packed[], models: Record<string, Packed>, passes: Record<string, Packed>,
 *   tokenizer: Packed, facts: string }} Files
 */

const here = new URL(".", self.location.href);
const version = new URL(self.location.href).searchParams.get("v");
const send = (/** @type {object} */ message) => self.postMessage(message);
let stopping = false;
let loaded = 0;
let total = 0;

/**
 * Fetch a file and report the progress of all files.
 * @param {Packed} file
 * @returns {Promise<ArrayBuffer>}
 */
async function fetched({ path, bytes }) {
  const answer = await fetch(new URL(path + "?v=" + version, here));
  if (!answer.ok) throw new Error(`${path} is missing: the server answers ${answer.status}`);
  const content = new Uint8Array(bytes);
  const reader = answer.body.getReader();
  let at = 0;
  for (let part; !(part = await reader.read()).done;) {
    content.set(part.value, at);
    at += part.value.length;
    loaded += part.value.length;
    send({ progress: { loaded, total } });
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
  const list = await fetch(new URL("files.json?v=" + version, here));
  /** @type {Files} */
  const files = await list.json();
  const code = files.passes[build()];
  const needed = [...files.archives, ...Object.values(files.models), files.tokenizer, code];
  total = needed.reduce((sum, file) => sum + file.bytes, 0);
  const python = loadPyodide({ indexURL: new URL("pyodide/", here).href });
  const archives = await Promise.all(files.archives.map(fetched));
  const words = JSON.parse(new TextDecoder().decode(await fetched(files.tokenizer)));
  const pass = await Pass.load(await fetched(code));
  /** @type {Record<string, any>} */
  const models = {};
  for (const [name, file] of Object.entries(files.models))
    models[name] = pass.model(await fetched(file), file.name, models.target || null);
  const pyodide = await python;
  for (const archive of archives) pyodide.unpackArchive(archive, "wheel");
  send({ progress: { loaded, total, measuring: true } });
  const session = pyodide.pyimport("visualize.live.session");
  const tokenizer = wordsOf(new Tokenizer(words, {}));
  return session.start(models.target, models.draft, tokenizer, files.facts, browser());
}

/** Wait until waiting messages, such as {stop}, are read. */
const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

/**
 * Compute a run and send its updates.
 * @param {any} session
 * @param {object} asked
 */
async function run(session, asked) {
  stopping = false;
  const updates = session.run(JSON.stringify(asked));
  try {
    for (const update of updates) {
      send({ update });
      await breathe();
      if (stopping) break;
    }
  } catch (/** @type {any} */ error) {
    send({ update: JSON.stringify({ error: `The run failed: ${error.message}` }) });
  }
  updates.close();
  updates.destroy();
  send({ ended: true, stopped: stopping });
}

/** @type {Promise<any>} */
const session = begin();
session.then(
  () => send({ ready: true }),
  (error) => send({ missing: error.message }),
);
let last = /** @type {Promise<any>} */ (session.catch(() => {}));
self.addEventListener("message", ({ data }) => {
  stopping = true; // a run gives way to the next one, too
  if (data.ask) last = last.then(async () => run(await session, data.ask)).catch(() => {});
});
