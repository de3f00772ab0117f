// One forward pass of a decoder of the Llama family over rows of a token tree.
//
// A row's numbers never depend on the rows beside it: each output has a fixed order of additions,
// and a row reads its keys in the order of the text, independent of their slots in the cache. So
// the rows of a tree equal, bit for bit, the rows of passes over one token each.
//
// Weights are bfloat16 in panels of 32 outputs, [panel][pair of inputs][output][2], or the same
// numbers from a file's blocks of 4 or 8 bits (blocks.h); see STRIP for a browser. Activations have
// the type T: bfloat16, rounded as in transformers' model, or float.
#include "amx.h"
#include "blocks.h"
#include "choose.h"
#include "rows.h"
#include "threads.h"
#include "vectors.h"

#include <algorithm>
#include <cstdlib>

constexpr int PANEL = 2 * LANES;
// Sums of a part's size that fit into registers beside the numbers to multiply.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int SUMS = 24;
#elif defined(__wasm__)  // with 12, browsers keep some of them in memory
constexpr int SUMS = 8;
#else
constexpr int SUMS = 12;
#endif
#if defined(__AVX512F__)
constexpr int MOST = 12;  // rows of a panel whose sums fit into registers
constexpr int QUERIES = 8, MIXED = 6;
#else
#if defined(__wasm__)
constexpr int MOST = 4;
#else
constexpr int MOST = 6;
#endif
constexpr int QUERIES = SUMS / PARTS < 4 ? SUMS / PARTS : 4, MIXED = 3;
#endif
// Rows up to which blocks are read without conversion to bfloat16, without AMX.
constexpr int FEW = NATIVE == LANES ? 3 : 0;

// ---- arguments from Python (decoder.py has the same fields) ----

enum Kind { BFLOAT16, Q4_1, Q8_0, ROUNDED };
struct Matrix {  // outer outputs from inner inputs, both even; bias may be null
  const uint8_t* panels;
  int64_t inner, outer;
  const float* bias;
  int64_t kind;  // Kind of the panels
};
struct Layer {
  Matrix qkv, out, gate, up, down;
  const float *norm_in, *norm_mid, *norm_q, *norm_k;  // the last two may be null
};
struct Decoder {
  int64_t width, heads, shared, head, middle, layers;
  float eps, scale;
  const Layer* layer;
  const float* norm;  // after the last layer
};
struct Pass {
  int64_t rows, past;      // rows of the pass, written after `past` cached rows
  void* x;                 // [rows, width] embeddings; the last layer's states afterwards
  void* hidden;            // [rows, width] out: the normalised states
  const int64_t* positions;  // [rows]
  const float *cos, *sin;    // [positions, head]
  void **keys, **values;   // a layer's cache [shared, capacity, head]
  int64_t capacity;
  const int32_t* straight;  // [rows]: number of first tokens of the row's text in slots 0, 1, ...
  const int32_t* begin;     // [rows + 1]: the other tokens, in the order of the text, are in
  const int32_t* slots;     // slots[begin[row]] to slots[begin[row + 1]]
  void** watched;           // [layers] out: states [rows, width] after the layer, or null
  const uint8_t* skipped;   // [layers]: 1 skips its attention, 2 its MLP, 3 both
};

template <class T>
struct Buffer {  // aligned memory, freed at the end of its scope
  T* p;
  explicit Buffer(int64_t count) : p((T*)aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64)) {}
  ~Buffer() { free(p); }
  operator T*() const { return p; }
};

// ---- products ----

// Weights that are needed soon. With many rows, a panel is in the processor's cache long before all
// rows are multiplied with it; meanwhile the next panel is prefetched bit by bit.
struct Soon {
  const uint8_t* weights;
  int64_t bytes;
  Soon part(int i, int of) const {
    int64_t begin = bytes * i / of;
    return {weights + begin, bytes * (i + 1) / of - begin};
  }
  void fetch(int64_t share) {  // the next `share` bytes
    for (const uint8_t* end = weights + share; weights < end; weights += 64)
      __builtin_prefetch(weights, 0, 2);
  }
};
constexpr int OFTEN = 8;  // steps between two prefetches

struct Stored {  // a reader of bfloat16, one pair of inputs at a time
  static constexpr int PAIRS = 1, STEP = 4 * PANEL;
  const uint8_t* weights;
  INLINE void open(Stored& r, const uint8_t* weights) { r.weights = weights; }
  INLINE Words pair(const Stored& r, int, int half) {
    Words w;
    memcpy(&w, r.weights + 2 * PANEL * half, sizeof w);
    return w;
  }
  INLINE const uint8_t* words(const Stored& r, int) { return r.weights; }
};

// Returns how many parts of a panel of `wide` parts are computed at once for some rows: the panel or
// a half or a quarter of it, so that the sums fit into registers. A spread number is then
// multiplied with as many weights as possible, to hide its load.
constexpr int at_once(int rows, int wide) {
  return rows * wide <= SUMS || wide == 1 ? wide : at_once(rows, wide / 2);
}

// Like `tile` below, for processors whose registers hold fewer than sixteen numbers.
template <int M, class Reader>
static void part_tile(const Matrix& w, int panel, const float* x, float* out, Soon soon) {
  constexpr int WIDE = PANEL / NATIVE, SOME = at_once(M, WIDE);
  const ptrdiff_t inner = w.inner, steps = inner / (2 * Reader::PAIRS);
  for (int first = 0; first < WIDE; first += SOME) {
    Part sums[M][SOME] = {};
    const uint8_t* weights = w.panels + panel * steps * Reader::STEP;
    Reader reader;
    Soon next = soon.part(first / SOME, WIDE / SOME);
    const ptrdiff_t share = OFTEN * next.bytes / steps;
    for (ptrdiff_t k = 0, step = 0; step < steps; step++, weights += Reader::STEP) {
      if (step % OFTEN == 0) next.fetch(share);
      Reader::open(reader, weights);
      for (int pair = 0; pair < Reader::PAIRS; pair++, k += 2) {
        const uint8_t* words = Reader::words(reader, pair) + 4 * NATIVE * first;
        Part one[SOME];
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
#pragma GCC unroll 8
          for (int i = 0; i < SOME; i++) {
            PartWords both;
            memcpy(&both, words + 4 * NATIVE * i, sizeof both);
            one[i] = odd ? (Part)(both & 0xffff0000u) : (Part)(both << 16);
          }
#pragma GCC unroll 8
          for (int m = 0; m < M; m++)
#pragma GCC unroll 8
            for (int i = 0; i < SOME; i++)
              sums[m][i] = madd(x[m * inner + k + odd], one[i], sums[m][i]);
        }
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int i = 0; i < SOME; i++)
        store(out + PANEL * m + NATIVE * (first + i), sums[m][i]);
  }
}

// Computes the sums of M rows; Reader reads the weights.
template <class T, int M, class Reader>
static void tile(const Matrix& w, int panel, const T* x, float* out, Soon soon) {
  using N = Number<T>;
  if constexpr (IN_PARTS<T>) return part_tile<M, Reader>(w, panel, x, out, soon);
  Floats sums[M][2] = {};
  const int64_t steps = w.inner / (2 * Reader::PAIRS);
  const uint8_t* weights = w.panels + panel * steps * Reader::STEP;
  Reader reader;
  const int64_t share = OFTEN * soon.bytes / steps;
  for (int64_t k = 0, step = 0; step < steps; step++, weights += Reader::STEP) {
    if (M > 2 && step % OFTEN == 0) soon.fetch(share);
    Reader::open(reader, weights);
    if (M <= 2)
      for (int i = 0; i < Reader::STEP; i += 64) __builtin_prefetch(weights + 2048 + i);
#pragma GCC unroll 4
    for (int pair = 0; pair < Reader::PAIRS; pair++, k += 2) {
      auto left = N::pair(Reader::pair(reader, pair, 0));
      auto right = N::pair(Reader::pair(reader, pair, 1));
#pragma GCC unroll 12
      for (int m = 0; m < M; m++) {
        sums[m][0] = N::dot(sums[m][0], x + m * w.inner + k, left);
        sums[m][1] = N::dot(sums[m][1], x + m * w.inner + k, right);
      }
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < M; m++) {
    store(out + PANEL * m, sums[m][0]);
    store(out + PANEL * m + LANES, sums[m][1]);
  }
}

template <class T, int M, class Blocks>
INLINE void tile_in_blocks(const Matrix& w, int panel, const T* x, float* out, Soon soon) {
  if constexpr (M <= FEW) return tile<T, M, Blocks>(w, panel, x, out, soon);
  return tile<T, M, Unpacked<Blocks>>(w, panel, x, out, soon);
}

template <class T, int M = MOST>
INLINE void tile_of(int rows, const Matrix& w, int panel, const T* x, float* out, Soon soon) {
  if constexpr (M > 1)
    if (rows < M) return tile_of<T, M - 1>(rows, w, panel, x, out, soon);
  if (w.kind == Q4_1) return tile_in_blocks<T, M, FourBits>(w, panel, x, out, soon);
  if (w.kind == Q8_0) return tile_in_blocks<T, M, EightBits>(w, panel, x, out, soon);
  if (w.kind == ROUNDED) return tile_in_blocks<T, M, Rounded>(w, panel, x, out, soon);
  tile<T, M, Stored>(w, panel, x, out, soon);
}

INLINE int panels(const Matrix& w) { return (int)((w.outer + PANEL - 1) / PANEL); }

// Returns a panel's weights, or none after the last panel.
INLINE Soon panel_of(const Matrix& w, int panel) {
  int64_t bytes = w.inner / 2 * Stored::STEP;
  if (w.kind == Q4_1) bytes = w.inner / INPUTS * FourBits::STEP;
  if (w.kind == Q8_0) bytes = w.inner / INPUTS * EightBits::STEP;
  if (w.kind == ROUNDED) bytes = w.inner / INPUTS * Rounded::STEP;
  return {w.panels + panel * bytes, panel < panels(w) ? bytes : 0};
}

// Computes the sums of any number of rows with AMX.
template <class Reader>
static void amx_rows(const Matrix& w, int panel, const bf16* x, int rows, float* out, Soon soon) {
  const int64_t step = DEEP / (2 * Reader::PAIRS) * Reader::STEP, steps = w.inner / DEEP;
  const uint8_t* weights = w.panels + panel * steps * step;
  const int most = 2 * TALL, groups = (rows + most - 1) / most;
  Reader reader;
  for (int row = 0; row < rows; row += most) {
    Soon next = soon.part(row / most, groups);
    const int64_t share = next.bytes / steps;
    amx_sums(w.inner, x + row * w.inner, std::min(most, rows - row), out + PANEL * row,
             [&](int64_t k) {
               next.fetch(share);
               Reader::open(reader, weights + k / DEEP * step);
               return Reader::words(reader, 0);
             });
  }
}

// Whether AMX computes a matrix's products, for any number of rows.
INLINE bool by_amx(const Matrix& w) { return w.inner % DEEP == 0 && amx_works(); }

#if defined(__wasm__)
// No instruction prefetches, so weights are in the order in which every number of rows reads them:
// a panel in strips of 32 inputs, a strip in halves [pair of inputs][16 outputs][2].
constexpr int STRIP = INPUTS;

// Makes the compiler keep the order of the source; otherwise browsers keep sums in memory.
INLINE Part in_order(Part v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Adds the products of M rows with a strip of `count` inputs to out [M][32].
template <int M>
static void add_strip(const uint8_t* strip, ptrdiff_t count, const float* x, ptrdiff_t inner,
                      float* out) {
  constexpr int SOME = at_once(M, PARTS);
  for (int first = 0; first < PANEL; first += NATIVE * SOME) {
    const uint8_t* weights = strip + first / LANES * 2 * LANES * count + first % LANES * 4;
    Part sums[M][SOME];
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int i = 0; i < SOME; i++) sums[m][i] = part(out + PANEL * m + first + NATIVE * i);
#pragma clang loop unroll(disable)
    for (ptrdiff_t k = 0; k < count; k += 4, weights += 8 * LANES)
#pragma GCC unroll 4
      for (int n = 0; n < 4; n++) {
        Part some[SOME];
#pragma GCC unroll 8
        for (int i = 0; i < SOME; i++) {
          PartWords both;
          memcpy(&both, weights + n / 2 * 4 * LANES + 4 * NATIVE * i, sizeof both);
          some[i] = in_order(n % 2 ? (Part)(both & 0xffff0000u) : (Part)(both << 16));
        }
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
          const Part number = in_order(spread(x[m * inner + k + n]));
#pragma GCC unroll 8
          for (int i = 0; i < SOME; i++) sums[m][i] = in_order(madd(number, some[i], sums[m][i]));
        }
      }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int i = 0; i < SOME; i++) store(out + PANEL * m + first + NATIVE * i, sums[m][i]);
  }
}
template <int M = MOST>
INLINE void add_strip_of(int rows, const uint8_t* strip, ptrdiff_t count, const float* x,
                         ptrdiff_t inner, float* out) {
  if constexpr (M > 1)
    if (rows < M) return add_strip_of<M - 1>(rows, strip, count, x, inner, out);
  add_strip<M>(strip, count, x, inner, out);
}

// Like `sums_of` below, for bfloat16 weights.
static void in_strips(const Matrix& w, int panel, const float* x, int rows, float* out) {
  const ptrdiff_t inner = w.inner;
  const uint8_t* strip = w.panels + panel * inner * 2 * PANEL;
  memset(out, 0, rows * PANEL * sizeof(float));
  for (ptrdiff_t first = 0; first < inner; first += STRIP, strip += STRIP * 2 * PANEL)
    for (int row = 0; row < rows; row += MOST)
      add_strip_of(std::min(MOST, rows - row), strip, std::min<ptrdiff_t>(STRIP, inner - first),
                   x + row * inner + first, inner, out + PANEL * row);
}
#endif

// Computes one panel's products with all rows x [rows][inner] into out [rows][32].
template <class T>
static void sums_of(const Matrix& w, int panel, const T* x, int rows, float* out, Soon soon) {
  if constexpr (HALF<T>)
    if (by_amx(w)) {
      if (w.kind == Q4_1) return amx_rows<Unpacked<FourBits>>(w, panel, x, rows, out, soon);
      if (w.kind == Q8_0) return amx_rows<Unpacked<EightBits>>(w, panel, x, rows, out, soon);
      if (w.kind == ROUNDED) return amx_rows<Unpacked<Rounded>>(w, panel, x, rows, out, soon);
      return amx_rows<Stored>(w, panel, x, rows, out, soon);
    }
#if defined(__wasm__)
  in_strips(w, panel, x, rows, out);
#else
  int groups = (rows + MOST - 1) / MOST;
  for (int i = 0, row = 0; i < groups; i++) {
    int some = (rows - row + groups - i - 1) / (groups - i);
    tile_of<T>(some, w, panel, x + (int64_t)row * w.inner, out + PANEL * row, soon.part(i, groups));
    row += some;
  }
#endif
}

// Like `sums_of`, with the matrix's bias.
template <class T>
static void panel_rows(const Matrix& w, int panel, const T* x, int rows, float* out, Soon soon) {
  sums_of(w, panel, x, rows, out, soon);
  if (!w.bias) return;
  for (int row = 0; row < rows; row++)
    for (int c = 0; c < PANEL && PANEL * panel + c < w.outer; c++)
      out[PANEL * row + c] += w.bias[PANEL * panel + c];
}

// Calls put(row, column, 16 values, number of valid ones) for the results of a panel.
template <class T, class Put>
INLINE void each_result(const Matrix& w, int panel, const T* x, int rows, float* scratch, Soon soon,
                        Put put) {
  panel_rows(w, panel, x, rows, scratch, soon);
  for (int row = 0; row < rows; row++)
    for (int c = 0; c < PANEL; c += LANES) {
      int64_t column = (int64_t)PANEL * panel + c, left = w.outer - column;
      if (left > 0)
        put(row, column, load(scratch + PANEL * row + c), (int)std::min<int64_t>(LANES, left));
    }
}

template <class T>
INLINE void put_some(T* p, Floats v, int count) {
  T all_of_them[LANES];
  if (count == LANES) return Number<T>::store(p, v);
  Number<T>::store(all_of_them, v);
  memcpy(p, all_of_them, count * sizeof(T));
}

// ---- operations on a row between the products ----

// out = x / sqrt(mean of squares + eps) * weight; the widths are multiples of 16.
template <class T>
static void normalise(const T* x, const float* weight, T* out, int64_t width, float eps) {
  using N = Number<T>;
  Floats squares = {};
  for (int64_t i = 0; i < width; i += LANES) {
    Floats v = N::load(x + i);
    squares = madd(v, v, squares);
  }
  Floats factor = all(1.0f / sqrtf(sum(squares) / width + eps));
  for (int64_t i = 0; i < width; i += LANES)
    N::store(out + i, N::rounded(N::load(x + i) * factor) * load(weight + i));
}

// Rotates the two halves of a head by a position's angles.
template <class T>
static void rotate(T* v, const float* cos, const float* sin, int64_t head) {
  using N = Number<T>;
  for (int64_t i = 0; i < head / 2; i += LANES) {
    Floats a = N::load(v + i), b = N::load(v + head / 2 + i);
    Floats c = load(cos + i), s = load(sin + i);
    N::store(v + i, madd(a, c, -(b * s)));
    N::store(v + head / 2 + i, madd(b, c, a * s));
  }
}

template <class T>
INLINE Floats gated(Floats gate, Floats up) {
  using N = Number<T>;
  gate = N::rounded(gate);
  Floats silu = gate / (1.0f + exponential(-gate));
  return N::rounded(silu) * N::rounded(up);
}

// ---- attention ----

// Lay out the keys of 16 tokens of a text as panels of pairs, and their values in pairs of tokens.
// A lane without a token is zero.
template <class T>
static void lay_keys(const T* const* tokens, int64_t head, T* out) {
  for (int i = 0; i < LANES; i++)
    for (int64_t d = 0; d < head; d += 2) {
      T* pair = out + LANES * d;
      pair[Number<T>::place(i, 0)] = tokens[i] ? tokens[i][d] : T(0);
      pair[Number<T>::place(i, 1)] = tokens[i] ? tokens[i][d + 1] : T(0);
    }
}
template <class T>
static void lay_values(const T* const* tokens, int64_t head, T* out) {
  for (int i = 0; i < LANES; i += 2, out += 2 * head)
    for (int64_t d = 0; d < head; d += LANES)
      for (int lane = 0; lane < LANES; lane++)
        for (int n = 0; n < 2; n++) {
          const T* token = tokens[i + n];
          out[2 * d + Number<T>::place(lane, n)] = token ? token[d + lane] : T(0);
        }
}

// Like `score` and `mix` below, for processors with smaller registers.
template <int N>
static void part_score(const float* q, const float* keys, int64_t head, float* out,
                       int64_t stride) {
  Part sums[N][PARTS] = {};
  for (int64_t d = 0; d < head; d++, keys += LANES)
#pragma GCC unroll 4
    for (int i = 0; i < PARTS; i++) {
      Part key = part(keys + NATIVE * i);
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sums[n][i] = madd(q[n * head + d], key, sums[n][i]);
    }
#pragma GCC unroll 8
  for (int n = 0; n < N; n++)
#pragma GCC unroll 4
    for (int i = 0; i < PARTS; i++) store(out + n * stride + NATIVE * i, sums[n][i]);
}
template <int N>
static void part_mix(const float* weights, int64_t stride, const float* values, int blocks,
                     int64_t head, float* sums) {
  for (int64_t d = 0; d < head; d += LANES) {
    Part held[N][PARTS];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++)
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; i++) held[n][i] = part(sums + n * head + d + NATIVE * i);
    for (int token = 0; token < blocks * LANES; token++) {
      const float* v = values + (token & ~1) * head + 2 * d + (token & 1) * LANES;
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; i++) {
        Part value = part(v + NATIVE * i);
#pragma GCC unroll 8
        for (int n = 0; n < N; n++)
          held[n][i] = madd(weights[n * stride + token], value, held[n][i]);
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; n++)
#pragma GCC unroll 4
      for (int i = 0; i < PARTS; i++) store(sums + n * head + d + NATIVE * i, held[n][i]);
  }
}

// Multiplies N queries [N][head] with 16 keys: out [N][16], `stride` apart.
template <class T, int N>
static void score(const T* q, const T* keys, int64_t head, float* out, int64_t stride) {
  if constexpr (IN_PARTS<T>) return part_score<N>(q, keys, head, out, stride);
  Floats sums[N] = {};
  for (int64_t d = 0; d < head; d += 2) {
    auto pair = Number<T>::pair(keys + LANES * d);
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sums[n] = Number<T>::dot(sums[n], q + n * head + d, pair);
  }
  for (int n = 0; n < N; n++) store(out + n * stride, sums[n]);
}

// Adds to sums [N][head] the values of some blocks of 16 tokens, weighted [N][stride].
template <class T, int N>
static void mix(const T* weights, int64_t stride, const T* values, int blocks, int64_t head,
                float* sums) {
  if constexpr (IN_PARTS<T>) return part_mix<N>(weights, stride, values, blocks, head, sums);
  for (int64_t d = 0; d < head; d += 2 * LANES) {
    Floats held[N][2];
#pragma GCC unroll 6
    for (int n = 0; n < N; n++)
      held[n][0] = load(sums + n * head + d), held[n][1] = load(sums + n * head + d + LANES);
    for (int pair = 0; pair < blocks * LANES / 2; pair++) {
      const T* v = values + 2 * head * pair + 2 * d;
      auto left = Number<T>::pair(v), right = Number<T>::pair(v + 2 * LANES);
#pragma GCC unroll 6
      for (int n = 0; n < N; n++) {
        const T* both = weights + n * stride + 2 * pair;
        held[n][0] = Number<T>::dot(held[n][0], both, left);
        held[n][1] = Number<T>::dot(held[n][1], both, right);
      }
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; n++)
      store(sums + n * head + d, held[n][0]), store(sums + n * head + d + LANES, held[n][1]);
  }
}

// `score` and `mix` for any number of queries and several blocks of 16 tokens.
template <class T, int N = QUERIES>
INLINE void scores_of(int count, const T* q, const T* keys, int blocks, int64_t head, float* out,
                      int64_t stride) {
  if constexpr (HALF<T>)
    if (amx_works()) return amx_scores(count, q, keys, blocks, head, out, stride);
  for (; count >= N; count -= N, q += N * head, out += N * stride)
    for (int b = 0; b < blocks; b++)
      score<T, N>(q, keys + b * LANES * head, head, out + b * LANES, stride);
  if constexpr (N > 1)
    if (count) scores_of<T, N - 1>(count, q, keys, blocks, head, out, stride);
}
template <class T, int N = MIXED>
INLINE void mix_of(int count, const T* weights, int64_t stride, const T* values, int blocks,
                   int64_t head, float* sums) {
  if constexpr (HALF<T>)
    if (amx_works()) return amx_mix(count, weights, stride, values, blocks, head, sums);
  for (; count >= N; count -= N, weights += N * stride, sums += N * head)
    mix<T, N>(weights, stride, values, blocks, head, sums);
  if constexpr (N > 1)
    if (count) mix_of<T, N - 1>(count, weights, stride, values, blocks, head, sums);
}

INLINE int blocks_of(int64_t tokens) { return (int)((tokens + LANES - 1) / LANES); }

// Attention of some rows for the query heads that share one head of keys and values.
template <class T>
class Attention {
 public:
  Attention(const Decoder& d, const Pass& p, int64_t most_rows)
      : decoder(d), pass(p), group(d.heads / d.shared) {
    longest = 0;
    for (int64_t row = 0; row < p.rows; row++) longest = std::max(longest, length(row));
    stride = (int64_t)blocks_of(longest) * LANES;
    int64_t queries = most_rows * group;
    floats = queries * (stride + d.head) + LANES;
    numbers = queries * (stride + d.head) + 2 * stride * d.head + LANES * d.head + LANES;
  }
  int64_t floats, numbers;  // scratch sizes for one thread

  // Writes mixed [rows][heads * head].
  void run(int64_t first, int64_t rows, int64_t shared, const T* qkv, int64_t layer, T* mixed,
           float* f, T* t) const {
    int64_t head = decoder.head, queries = rows * group,
            line = (decoder.heads + 2 * decoder.shared) * head;
    const T* keys = (const T*)pass.keys[layer] + shared * pass.capacity * head;
    const T* values = (const T*)pass.values[layer] + shared * pass.capacity * head;
    float *scores = f, *sums = f + queries * stride;
    T *weights = t, *laid_keys = weights + queries * stride,
      *laid_values = laid_keys + stride * head, *tail = laid_values + stride * head,
      *asked = tail + LANES * head;  // queries [queries][head]
    auto row_of = [&](int64_t n) { return first + n / group; };

    // Blocks of 16 tokens in consecutive slots are laid out once for all rows.
    int common = 0;
    for (int64_t row = first; row < first + rows; row++) common = std::max(common, in_order(row));
    for (int b = 0; b < common; b++) {
      const T *k[LANES], *v[LANES];
      for (int i = 0; i < LANES; i++) {
        int64_t slot = (int64_t)b * LANES + i;
        bool there = slot < pass.past + pass.rows;
        k[i] = there ? keys + slot * head : nullptr, v[i] = there ? values + slot * head : nullptr;
      }
      lay_keys(k, head, laid_keys + b * LANES * head);
      lay_values(v, head, laid_values + b * LANES * head);
    }
    for (int64_t row = 0; row < rows; row++)
      memcpy(asked + row * group * head, qkv + (first + row) * line + shared * group * head,
             group * head * sizeof(T));
    for (int64_t n = 0; n < queries; n += TALL) {
      int count = (int)std::min<int64_t>(TALL, queries - n), blocks = 0;
      for (int i = 0; i < count; i++) blocks = std::max(blocks, in_order(row_of(n + i)));
      scores_of<T>(count, asked + n * head, laid_keys, blocks, head, scores + n * stride, stride);
    }
    // Other blocks are gathered for each row.
    for (int64_t n = 0; n < queries; n += group)
      for (int b = in_order(row_of(n)); b < blocks_of(length(row_of(n))); b++) {
        gather(row_of(n), b, keys, true, tail);
        for (int i = 0; i < group; i += TALL)
          scores_of<T>(std::min(TALL, (int)group - i), asked + (n + i) * head, tail, 1, head,
                       scores + (n + i) * stride + b * LANES, stride);
      }
    for (int64_t n = 0; n < queries; n++)
      soften(scores + n * stride, weights + n * stride, length(row_of(n)));

    memset(sums, 0, queries * head * sizeof(float));
    const int most = HALF<T> && amx_works() ? TALL : 2 * MIXED;
    for (int64_t n = 0; n < queries;) {
      int count = 0, blocks = 0;
      for (; count < most && n + count < queries && together(row_of(n), row_of(n + count)); count++)
        blocks = std::max(blocks, in_order(row_of(n + count)));
      mix_of<T>(count, weights + n * stride, stride, laid_values, blocks, head, sums + n * head);
      n += count;
    }
    for (int64_t n = 0; n < queries; n += group)
      for (int b = in_order(row_of(n)); b < blocks_of(length(row_of(n))); b++) {
        gather(row_of(n), b, values, false, tail);
        for (int i = 0; i < group; i += TALL)
          mix_of<T>(std::min(TALL, (int)group - i), weights + (n + i) * stride + b * LANES, stride,
                    tail, 1, head, sums + (n + i) * head);
      }
    for (int64_t n = 0; n < queries; n++) {
      Floats factor = all(scores[n * stride]);  // written by soften
      T* out = mixed + row_of(n) * decoder.heads * head + (shared * group + n % group) * head;
      for (int64_t d = 0; d < head; d += LANES)
        Number<T>::store(out + d, load(sums + n * head + d) * factor);
    }
  }

 private:
  const Decoder& decoder;
  const Pass& pass;
  int64_t group, longest, stride;

  int64_t length(int64_t row) const {
    return pass.straight[row] + pass.begin[row + 1] - pass.begin[row];
  }
  bool straight(int64_t row) const { return pass.begin[row + 1] == pass.begin[row]; }
  // Number of blocks of a row's text that equal blocks of the cache.
  int in_order(int64_t row) const {
    return straight(row) ? blocks_of(pass.straight[row]) : pass.straight[row] / LANES;
  }
  // Whether the common blocks of two rows can be mixed together. Straight rows can, because tokens
  // that the shorter one does not see have weight 0. Other rows must have equally many of them.
  bool together(int64_t a, int64_t b) const {
    return straight(a) ? straight(b) : !straight(b) && in_order(a) == in_order(b);
  }
  void gather(int64_t row, int block, const T* from, bool as_keys, T* out) const {
    const T* tokens[LANES];
    for (int i = 0; i < LANES; i++) {
      int64_t n = (int64_t)block * LANES + i, behind = n - pass.straight[row];
      int64_t slot = behind < 0 ? n : n < length(row) ? pass.slots[pass.begin[row] + behind] : -1;
      tokens[i] = slot < 0 ? nullptr : from + slot * decoder.head;
    }
    as_keys ? lay_keys(tokens, decoder.head, out) : lay_values(tokens, decoder.head, out);
  }
  // weights = e^(scaled score - largest), 0 beyond the text; the first score becomes 1 / their sum.
  void soften(float* scores, T* weights, int64_t tokens) const {
    int64_t end = (int64_t)blocks_of(tokens) * LANES;
    for (int64_t i = tokens; i < end; i++) scores[i] = -INFINITY;
    const Part none = spread(-INFINITY), scale = spread(decoder.scale);
    float each[LANES];
    Part tops[PARTS], total[PARTS] = {};
    for (Part& top : tops) top = none;
    for (int64_t i = 0; i < end; i += LANES)
      for (int n = 0; n < PARTS; n++)
        tops[n] = largest(tops[n], part(scores + i + NATIVE * n) * scale);
    for (int n = 0; n < PARTS; n++) store(each + NATIVE * n, tops[n]);
    const Part top = spread(most(load(each)));
    for (int64_t i = 0; i < end; i += LANES) {
      for (int n = 0; n < PARTS; n++) {
        Part s = part(scores + i + NATIVE * n) * scale;
        Part e = s > none ? exponential(s - top) : Part{};
        total[n] += e;
        store(each + NATIVE * n, e);
      }
      Number<T>::store(weights + i, load(each));
    }
    for (int n = 0; n < PARTS; n++) store(each + NATIVE * n, total[n]);
    for (int64_t i = end; i < stride; i++) weights[i] = T(0);
    scores[0] = 1.0f / sum(load(each));
  }
};

// ---- the pass ----

template <class T>
static void run(const Decoder& d, const Pass& p, const Threads& threads) {
  using N = Number<T>;
  int64_t rows = p.rows, head = d.head, line = (d.heads + 2 * d.shared) * head;
  // A piece has few enough rows for all threads to have work, and many enough to share laid keys.
  int64_t each = rows * d.shared / (2 * threads.wanted),
          some = std::min<int64_t>(32, std::max<int64_t>(1, std::min(rows, each))),
          pieces = (rows + some - 1) / some;
  Attention<T> attention(d, p, some);
  int64_t widest = 2 * PANEL * rows;
  Buffer<T> normed(rows * d.width), qkv(rows * line), mixed(rows * d.heads * head),
      active(rows * d.middle);
  Buffer<float> scratch(threads.wanted * (widest + LANES)),
      floats(threads.wanted * attention.floats);
  Buffer<T> numbers(threads.wanted * attention.numbers);
  T *x = (T*)p.x, *hidden = (T*)p.hidden;
  Team team((int)(8 * d.layers + 1));

  // The weights that a thread probably reads after a panel, as threads alternate: of the same
  // product, or of the next one.
  auto soon = [&](const Matrix& w, int panel, const Matrix& then) {
    int next = panel + team.size;
    return next < panels(w) ? panel_of(w, next) : panel_of(then, next - panels(w));
  };
  auto add = [&](int row, int64_t column, Floats v, int) {
    T* sum = x + row * d.width + column;
    N::store(sum, N::load(sum) + N::rounded(v));
  };
  auto norm_all = [&](int counter, const float* weight, T* out) {
    team.share(counter, (int)rows, [&](int r) {
      normalise(x + r * d.width, weight, out + r * d.width, d.width, d.eps);
    });
  };
  auto attend = [&](int64_t l, int thread) {
    const Layer& y = d.layer[l];
    float* out = scratch + thread * (widest + LANES);
    int step = (int)(8 * l);
    norm_all(step, y.norm_in, normed);
    team.share(step + 1, panels(y.qkv), [&](int panel) {
      each_result<T>(y.qkv, panel, normed, (int)rows, out, soon(y.qkv, panel, y.out),
                     [&](int r, int64_t c, Floats v, int) { N::store(qkv + r * line + c, v); });
    });
    team.share(step + 2, (int)rows, [&](int r) {
      T* row = qkv + r * line;
      int64_t turn = p.positions[r] * head;
      for (int64_t h = 0; h < d.heads + d.shared; h++) {
        const float* norm = h < d.heads ? y.norm_q : y.norm_k;
        if (norm) normalise(row + h * head, norm, row + h * head, head, d.eps);
        rotate(row + h * head, p.cos + turn, p.sin + turn, head);
      }
      for (int64_t h = 0; h < d.shared; h++) {
        int64_t slot = (h * p.capacity + p.past + r) * head;
        memcpy((T*)p.keys[l] + slot, row + (d.heads + h) * head, head * sizeof(T));
        memcpy((T*)p.values[l] + slot, row + (d.heads + d.shared + h) * head, head * sizeof(T));
      }
    });
    team.share(step + 3, (int)(d.shared * pieces), [&](int i) {
      int64_t first = i % pieces * some;
      attention.run(first, std::min(some, rows - first), i / pieces, qkv, l, mixed,
                    floats + thread * attention.floats, numbers + thread * attention.numbers);
    });
    team.share(step + 4, panels(y.out), [&](int panel) {
      each_result<T>(y.out, panel, mixed, (int)rows, out, soon(y.out, panel, y.up), add);
    });
  };
  auto feed = [&](int64_t l, int thread) {
    const Layer& y = d.layer[l];
    float *out = scratch + thread * (widest + LANES), *more = out + PANEL * rows;
    int step = (int)(8 * l);
    norm_all(step + 5, y.norm_mid, normed);
    team.share(step + 6, panels(y.gate), [&](int panel) {
      panel_rows<T>(y.up, panel, normed, (int)rows, more, panel_of(y.gate, panel));
      each_result<T>(y.gate, panel, normed, (int)rows, out, soon(y.up, panel, y.down),
                     [&](int r, int64_t c, Floats v, int) {
                       Floats up = load(more + PANEL * r + c % PANEL);
                       N::store(active + r * d.middle + c, gated<T>(v, up));
                     });
    });
    const Layer& next = d.layer[std::min(l + 1, d.layers - 1)];
    team.share(step + 7, panels(y.down), [&](int panel) {
      each_result<T>(y.down, panel, active, (int)rows, out, soon(y.down, panel, next.qkv), add);
    });
  };
  together(threads, team, [&](int thread) {
    Amx amx;
    for (int64_t l = 0; l < d.layers; l++) {
      if (!(p.skipped[l] & 1)) attend(l, thread);
      if (!(p.skipped[l] & 2)) feed(l, thread);
      if (!p.watched[l]) continue;
      if (thread == 0) memcpy(p.watched[l], x, rows * d.width * sizeof(T));
      team.wait();
    }
    norm_all((int)(8 * d.layers), d.norm, hidden);
  });
}

// x [rows, inner] -> out [rows, outer]
template <class T>
static void multiply(const Matrix& w, const T* x, T* out, int64_t rows, const Threads& threads) {
  Buffer<float> scratch(threads.wanted * (PANEL * rows + LANES));
  Team team(1);
  together(threads, team, [&](int thread) {
    Amx amx;
    team.share(0, panels(w), [&](int panel) {
      each_result<T>(w, panel, x, (int)rows, scratch + thread * (PANEL * rows + LANES),
                     panel_of(w, panel + team.size),
                     [&](int r, int64_t c, Floats v, int count) {
                       put_some(out + r * w.outer + c, v, count);
                     });
    });
  });
}

#if !defined(__wasm__)
extern "C" {
void ouroboros_run(const Decoder* d, const Pass* p, const Threads* threads, int half) {
  half ? run<bf16>(*d, *p, *threads) : run<float>(*d, *p, *threads);
}
void ouroboros_multiply(const Matrix* w, const void* x, void* out, int64_t rows,
                        const Threads* threads, int half) {
  half ? multiply(*w, (const bf16*)x, (bf16*)out, rows, *threads)
       : multiply(*w, (const float*)x, (float*)out, rows, *threads);
}
// Counts the groups of 32 inputs and 32 outputs in which blocks differ from a bfloat16 matrix.
int64_t ouroboros_differences(const Matrix* blocks, const Matrix* w) {
  auto stored = (const bf16*)w->panels;
  int64_t groups = w->inner / INPUTS * panels(*w);
  if (blocks->kind == Q4_1) return differences<FourBits>(blocks->panels, stored, groups);
  if (blocks->kind == Q8_0) return differences<EightBits>(blocks->panels, stored, groups);
  return differences<Rounded>(blocks->panels, stored, groups);
}
// Rounds a bfloat16 matrix to 8 bits, which it also writes as blocks.
void ouroboros_round(const Matrix* w, uint8_t* blocks) {
  round_groups((bf16*)w->panels, blocks, w->inner / INPUTS * panels(*w));
}
// Rows up to which a draft's 8 bits are read faster than bfloat16 numbers. Without an instruction
// that makes bfloat16 numbers they never are.
int ouroboros_few() {
#if defined(__AVX512BF16__)
  return 4;
#else
  return 0;
#endif
}
// Whether the compiler uses wide instructions of this processor; without them torch is faster.
int ouroboros_wide() {
#if defined(__AVX512F__) || defined(__FMA__) || defined(__aarch64__)
  return 1;
#else
  return 0;
#endif
}
int ouroboros_amx() { return amx_works(); }
int ouroboros_half() {  // whether this processor multiplies bfloat16 directly
#if defined(__AVX512BF16__)
  return 1;
#else
  return 0;
#endif
}
}
#endif
