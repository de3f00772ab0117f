// @ts-check
/**
 * The native pass in a browser, in a worker or in Node: models, their caches and choices.
 *
 *     const pass = await Pass.load(await fetched(`pass-${build()}.wasm`));
 *     const target = pass.model(await fetched("target.bin"), "SmolLM2-135M-Instruct");
 *     const draft = pass.model(await fetched("draft.bin"), "smollm2-draft", target);
 *     const head = pass.model(await fetched("eagle3.bin"), "smollm2-eagle3", target);
 *
 * `ouroboros_core/models/web.py` makes language models of `target` and `draft`, and a drafter of
 * `head`. All calls are
 * synchronous. One `Pass` has one memory, which every model of it shares.
 */

/**
 * Numbers from JavaScript or Python: an array, or the proxy of a Python list or array.
 * @typedef {Iterable<number> & { getBuffer?: (kind: string) => { data: Int32Array, release: () => void } }} Numbers
 */

function noMemory() {
  throw new RangeError("the browser gives this page no more memory");
}

/**
 * A request for a random choice; see `Draw` in ouroboros_core/tree.py.
 * @typedef {object} Draw
 * @property {number} temperature
 * @property {number} top_k
 * @property {number} top_p
 * @property {number} seed
 * @property {number} position
 * @property {number} turn
 * @property {number | bigint} question
 */

/**
 * The header of a weights file, whose layout `ouroboros_core/loading/browser.py` describes.
 * @typedef {object} Header
 * @property {{ width: number, heads: number, shared: number, head: number, middle: number,
 *   layers: number, eps: number, theta: number, longest: number, vocabulary: number }} shape
 * @property {Matrix[]} matrices
 * @property {Norm[]} norms
 * @property {number[] | null} outputs  token ids that the model can write, ascending; null for all
 * @property {number[]} [depths]  of a head: layers of the target after which it reads states
 */

/** @typedef {{ layer: number, place: number, inner: number, outer: number, kind: number, begin: number, bytes: number }} Matrix */
/** @typedef {{ layer: number, place: number, begin: number, bytes: number }} Norm */

/** The functions of web.cpp.
 * @typedef {Record<string, (...values: (number | bigint)[]) => number> & { memory: WebAssembly.Memory }} Exports */

const MAGIC = "OUROBORO";
const ALIGNMENT = 64;

/** A module of one instruction, `f32x4.relaxed_madd`, which only some browsers accept. */
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 8, 1, 96, 3, 123, 123, 123, 1, 123, 3, 2, 1, 0, 10, 13, 1, 11, 0,
  32, 0, 32, 1, 32, 2, 253, 133, 2, 11,
];

/**
 * Return the name of the build for this browser: `relaxed`, or `simd` without fused products.
 * @returns {"relaxed" | "simd"}
 */
export function build() {
  return WebAssembly.validate(new Uint8Array(RELAXED)) ? "relaxed" : "simd";
}

export class Pass {
  /** @param {Exports} exports */
  constructor(exports) {
    this.exports = exports;
  }

  /**
   * Compile a build of web.cpp.
   * @param {BufferSource} code
   */
  static async load(code) {
    const module = await WebAssembly.compile(code);
    const { exp, log, log1p, cos, sin, pow } = Math;
    const env = { exp, log, log1p, logf: log, cosf: cos, sinf: sin, powf: pow };
    const { exports } = await WebAssembly.instantiate(module, { env });
    return new Pass(/** @type {Exports} */ (/** @type {unknown} */ (exports)));
  }

  /**
   * Return a model with the weights of a file, which is not needed afterwards.
   * @param {ArrayBuffer} file
   * @param {string} name
   * @param {Model | null} [target]  the model whose embeddings it shares
   */
  model(file, name, target = null) {
    return new Model(this, file, name, target);
  }

  /**
   * Return memory for a number of 32-bit numbers.
   * @param {number} count
   */
  room(count) {
    const address = this.exports.web_room(4 * Math.max(count, 1));
    if (!address) noMemory();
    return address;
  }

  /**
   * Call `work` with the address of a copy of some numbers.
   * @template T
   * @param {ArrayLike<number>} values
   * @param {(address: number) => T} work
   */
  with(values, work) {
    const address = this.room(values.length);
    new Int32Array(this.exports.memory.buffer, address, values.length).set(values);
    try {
      return work(address);
    } finally {
      this.exports.web_free(address);
    }
  }

  /**
   * Return a copy of numbers that `work` writes.
   * @param {number} count
   * @param {(address: number) => void} work
   */
  written(count, work) {
    const address = this.room(count);
    try {
      work(address);
      return new Int32Array(this.exports.memory.buffer, address, count).slice();
    } finally {
      this.exports.web_free(address);
    }
  }
}

/**
 * A language model with a cache of keys and values. The caller knows the tokens of its rows.
 */
export class Model {
  /**
   * @param {Pass} pass
   * @param {ArrayBuffer} file
   * @param {string} name
   * @param {Model | null} target
   */
  constructor(pass, file, name, target) {
    const header = read(file);
    const { exports } = pass;
    const { width, heads, shared, head, middle, layers, eps, theta, vocabulary } = header.shape;
    const sizes = [width, heads, shared, head, middle, layers];
    this.pass = pass;
    this.name = name;
    /** The number of token ids. */
    this.vocabulary = vocabulary;
    /** The most tokens of a text. */
    this.longest = header.shape.longest;
    this.handle = exports.web_model(...sizes, eps, theta, vocabulary);
    for (const { layer, place, inner, outer, kind, begin, bytes } of header.matrices) {
      const address = this.copied(file, begin, bytes);
      if (!exports.web_matrix(this.handle, layer, place, inner, outer, kind, address)) noMemory();
    }
    for (const { layer, place, begin, bytes } of header.norms)
      exports.web_norm(this.handle, layer, place, this.copied(file, begin, bytes));
    if (target) exports.web_share(this.handle, target.handle);
    const { outputs } = header;
    const { length } = outputs || [];
    if (outputs && !pass.with(outputs, (ids) => exports.web_outputs(this.handle, ids, length)))
      noMemory();
    const { depths } = header;
    if (depths)
      pass.with(depths, (ids) => exports.web_head(this.handle, target.handle, ids, depths.length));
    /** The number of token ids that the model scores. */
    this.columns = outputs ? outputs.length : vocabulary;
  }

  /**
   * Return the address of a copy of a part of the file.
   * @param {ArrayBuffer} file
   * @param {number} begin
   * @param {number} bytes
   */
  copied(file, begin, bytes) {
    const address = this.pass.room(bytes / 4);
    const { buffer } = this.pass.exports.memory;
    new Uint8Array(buffer, address, bytes).set(new Uint8Array(file, begin, bytes));
    return address;
  }

  /**
   * Allocate a cache of at least this number of rows in advance.
   * @param {number} rows
   */
  reserve(rows) {
    if (!this.pass.exports.web_reserve(this.handle, rows)) noMemory();
  }

  /**
   * Keep the cached rows before `start` and then `rows`, ascending and all at or after `start`.
   * @param {number} start
   * @param {Numbers} rows
   */
  keep(start, rows) {
    const kept = numbers(rows);
    this.pass.with(kept, (address) =>
      this.pass.exports.web_keep(this.handle, start, address, kept.length),
    );
  }

  /**
   * Say which features the next rows of a head continue: its guesses in some slots of its cache, or
   * the features in those of the target's.
   * @param {Numbers} slots
   * @param {boolean} guesses
   */
  follow(slots, guesses) {
    const chosen = numbers(slots);
    this.pass.with(chosen, (address) =>
      this.pass.exports.web_continue(this.handle, address, chosen.length, Number(guesses)),
    );
  }

  /**
   * Compute rows after the first `past` cached ones, and return the logits of some of them.
   *
   * @param {number} past
   * @param {Numbers} tokens     [rows]
   * @param {Numbers} positions  [rows] in the text
   * @param {Numbers} straight   [rows] how many of the first slots of the cache the row's text has
   * @param {Numbers} begin      [rows + 1] where in `slots` its other tokens begin
   * @param {Numbers} slots      their slots in the cache, in the order of the text
   * @param {Numbers} scored     rows whose logits are returned
   */
  run(past, tokens, positions, straight, begin, slots, scored) {
    const parts = [tokens, positions, straight, begin, slots, scored].map(numbers);
    const rows = parts[0].length;
    const count = parts[5].length;
    this.reserve(past + rows);
    const joined = parts.flatMap((part) => [...part]);
    const address = this.pass.with(joined, (given) =>
      this.pass.exports.web_run(this.handle, rows, past, given, parts[4].length, count),
    );
    if (count && !address) noMemory();
    return new Logits(this, address, count);
  }
}

/** Rows of logits in the pass's memory, and the choices from them. */
export class Logits {
  /**
   * @param {Model} model
   * @param {number} address
   * @param {number} count
   */
  constructor(model, address, count) {
    this.model = model;
    this.address = address;
    /** The number of rows. */
    this.count = count;
  }

  /** Return the most probable token after every row, the first of equals. */
  argmax() {
    const { pass, handle } = this.model;
    return pass.written(this.count, (out) =>
      pass.exports.web_argmax(handle, this.address, this.count, out),
    );
  }

  /**
   * Return the k most probable tokens after each of some rows, the most probable first, and their
   * log-probabilities.
   * @param {Numbers} rows
   * @param {number} k
   * @returns {{ tokens: Int32Array, scores: Float32Array }}  [rows * k] each
   */
  top(rows, k) {
    const { pass, handle, columns } = this.model;
    const chosen = numbers(rows);
    const most = Math.min(k, columns);
    const size = chosen.length * most;
    const both = pass.with(chosen, (given) =>
      pass.written(2 * size, (out) => {
        const scores = out + 4 * size;
        pass.exports.web_top(handle, this.address, given, chosen.length, most, out, scores);
      }),
    );
    return { tokens: both.slice(0, size), scores: new Float32Array(both.buffer, 4 * size, size) };
  }

  /**
   * Return the log-probability of a token after a row; -Infinity for one that is not scored.
   * @param {number} row
   * @param {number} token
   */
  logarithm(row, token) {
    const { pass, handle } = this.model;
    return pass.exports.web_logarithm(handle, this.address, row, token);
  }

  /**
   * Return the logits [vocabulary] of a row; -Infinity for a token that is not scored.
   * @param {number} row
   */
  row(row) {
    const { pass, handle, vocabulary } = this.model;
    const bits = pass.written(vocabulary, (out) =>
      pass.exports.web_row(handle, this.address, row, out),
    );
    return new Float32Array(bits.buffer);
  }

  /**
   * Return up to k different tokens that are drawn after a row; the first is the choice of
   * `Sampler.chooser`.
   * @param {number} row
   * @param {number} k
   * @param {Draw} draw
   */
  draw(row, k, draw) {
    const { pass, handle } = this.model;
    const limits = [draw.temperature, draw.top_k, draw.top_p];
    const noise = [draw.seed, draw.position, draw.turn, draw.question].map(BigInt);
    let count = 0;
    const tokens = pass.written(k, (out) => {
      count = pass.exports.web_draw(handle, this.address, row, ...limits, ...noise, k, out);
    });
    return tokens.slice(0, count);
  }

  /** Give the memory of the rows back; they cannot be used any more. */
  free() {
    if (this.address) this.model.pass.exports.web_free(this.address);
    this.address = 0;
  }
}

/**
 * Return the header of a weights file, with offsets from the beginning of the file.
 * @param {ArrayBuffer} file
 * @returns {Header}
 */
function read(file) {
  const text = (/** @type {number} */ begin, /** @type {number} */ count) =>
    new TextDecoder().decode(new Uint8Array(file, begin, count));
  if (file.byteLength < 12 || text(0, MAGIC.length) !== MAGIC)
    throw new TypeError("this is no weights file of Ouroboros");
  const size = new DataView(file).getUint32(MAGIC.length, true);
  /** @type {Header} */
  const header = JSON.parse(text(MAGIC.length + 4, size));
  const data = ALIGNMENT * Math.ceil((MAGIC.length + 4 + size) / ALIGNMENT);
  for (const part of [...header.matrices, ...header.norms]) part.begin += data;
  return header;
}

/**
 * @param {Numbers} values
 * @returns {Int32Array}
 */
function numbers(values) {
  if (values instanceof Int32Array) return values;
  if (!values.getBuffer) return Int32Array.from(values);
  const buffer = values.getBuffer("i32");
  const copy = buffer.data.slice();
  buffer.release();
  return copy;
}
