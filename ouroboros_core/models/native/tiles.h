// Products by Intel's tiles (AMX): 16 rows with 32 inputs of 16 outputs in one instruction. Where a
// processor has them, all products of bfloat16 whose inputs are a multiple of 32 are computed so,
// of one row as of many, and in the same order; weights in panels lie as tiles want them.
#pragma once
#include "vectors.h"

constexpr int TALL = 16;   // rows of a tile
constexpr int DEEP = 32;   // inputs of a tile
constexpr int WIDE = 128;  // bytes from one pair of inputs of a panel to the next

#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

// Linux lends a process the registers when it asks, once.
static bool tiles_work() {
  constexpr long ASK = 0x1023, TILES = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool lent = syscall(SYS_arch_prctl, ASK, TILES) == 0;
  return lent;
}

// A thread's tiles while it computes. 0 to 3 are sums, 0 and 1 of the upper rows, 2 and 3 of the
// lower ones; 4 and 5 are numbers of the upper and the lower rows, `deep` of each; 6 and 7 what
// they are multiplied with.
class Tiles {
 public:
  Tiles() { shape = {}; }  // other code of this thread may have shaped them otherwise
  ~Tiles() {
    if (shape.palette) _tile_release();
  }
  static void for_rows(int upper, int lower, int deep) {
    if (shape.rows[0] == upper && shape.rows[2] == lower && shape.rows[6] == deep / 2) return;
    shape = {};
    shape.palette = 1;
    for (int tile = 0; tile < 8; tile++) {
      bool low = tile == 2 || tile == 3 || tile == 5, numbers = tile == 4 || tile == 5;
      int rows = tile > 5 ? deep / 2 : low ? lower : upper;
      shape.rows[tile] = (uint8_t)rows;
      shape.bytes[tile] = (uint16_t)(rows ? (numbers ? sizeof(bf16) * deep : 64) : 0);
    }
    _tile_loadconfig(&shape);
  }

 private:
  struct alignas(64) Shape {
    uint8_t palette, first_row, unused[14];
    uint16_t bytes[16];  // of a row
    uint8_t rows[16];
  };
  static thread_local Shape shape;
};
thread_local Tiles::Shape Tiles::shape;

// The sums of up to 32 rows x [rows][inner] with a panel. next(k) are the weights of inputs k to
// k + 31, [pair of inputs][output][2].
template <class Next>
INLINE void tile_sums(int64_t inner, const bf16* x, int rows, float* out, Next next) {
  const int upper = rows < TALL ? rows : TALL, lower = rows - upper;
  const int64_t line = sizeof(bf16) * inner;
  Tiles::for_rows(upper, lower, DEEP);
  _tile_zero(0);
  _tile_zero(1);
  if (lower) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < inner; k += DEEP) {
    const uint8_t* weights = next(k);
    asm volatile("" ::: "memory");  // compilers do not know that tiles are loaded from memory
    _tile_loadd(6, weights, WIDE);
    _tile_loadd(7, weights + WIDE / 2, WIDE);
    _tile_loadd(4, x + k, line);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!lower) continue;
    _tile_loadd(5, x + TALL * inner + k, line);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, WIDE);
  _tile_stored(1, out + LANES, WIDE);
  if (!lower) return;
  _tile_stored(2, out + 2 * LANES * TALL, WIDE);
  _tile_stored(3, out + 2 * LANES * TALL + LANES, WIDE);
}

// As `score` of decoder.cpp, with all blocks of 16 keys.
static void tile_scores(int count, const bf16* q, const bf16* keys, int blocks, int64_t head,
                        float* out, int64_t stride) {
  Tiles::for_rows(count, 0, DEEP);
  asm volatile("" ::: "memory");
  for (int b = 0; b < blocks; b++, keys += LANES * head) {
    _tile_zero(0);
    for (int64_t d = 0; d < head; d += DEEP) {
      _tile_loadd(4, q + d, sizeof(bf16) * head);
      _tile_loadd(6, keys + LANES * d, 64);
      _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, out + LANES * b, sizeof(float) * stride);
  }
}

// As `mix`: a block is 16 tokens, and has a product of its own whichever rows see it.
static void tile_mix(int count, const bf16* weights, int64_t stride, const bf16* values, int blocks,
                     int64_t head, float* sums) {
  const int64_t line = sizeof(float) * head;
  Tiles::for_rows(count, 0, LANES);
  asm volatile("" ::: "memory");
  for (int64_t d = 0; d < head; d += 2 * LANES) {
    _tile_loadd(0, sums + d, line);
    _tile_loadd(1, sums + d + LANES, line);
    for (int b = 0; b < blocks; b++) {
      const bf16* pairs = values + b * LANES * head + 2 * d;
      _tile_loadd(4, weights + b * LANES, sizeof(bf16) * stride);
      _tile_loadd(6, pairs, line);  // two tokens' numbers take as much as one's sums
      _tile_loadd(7, pairs + 2 * LANES, line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, sums + d, line);
    _tile_stored(1, sums + d + LANES, line);
  }
}
#else
static bool tiles_work() { return false; }
struct Tiles {};
static void tile_scores(int, const bf16*, const bf16*, int, int64_t, float*, int64_t) {}
static void tile_mix(int, const bf16*, int64_t, const bf16*, int, int64_t, float*) {}
template <class Next>
INLINE void tile_sums(int64_t, const bf16*, int, float*, Next) {}
#endif
