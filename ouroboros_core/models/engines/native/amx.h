// Products by Intel's AMX, whose registers are tiles: one instruction multiplies 16 rows with 32
// inputs of 16 outputs. If the process may use AMX, it computes all products of bfloat16 whose
// number of inputs is a multiple of 32, for one row as for many. An output's inputs are added 32 at
// a time, with separate sums of even and odd ones. Weights in panels have the layout of tiles.
#pragma once
#include "vectors.h"

constexpr int TALL = 16;           // rows of a tile
constexpr int DEEP = 32;           // inputs of a tile
constexpr int PANEL_PAIR = 128;    // bytes from one pair of inputs of a panel to the next

#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// Linux allows a process to use the registers after one request.
bool amx_works() {
  constexpr long ASK = 0x1023, TILES = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool allowed = syscall(SYS_arch_prctl, ASK, TILES) == 0;
  return allowed;
}

// Compilers do not know the memory that tiles load: this barrier keeps stores in order.
INLINE void stored() { asm volatile("" ::: "memory"); }

// The address sanitizer does not know it either: read both ends of each row for it.
INLINE void shown(const void* p, int64_t rows, int64_t stride, int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  auto first = (const volatile char*)p;
  for (int64_t row = 0; bytes && row < rows; row++)
    (void)first[row * stride], first[row * stride + bytes - 1];
#else
  (void)p, (void)rows, (void)stride, (void)bytes;
#endif
}

// A thread's tiles while it computes. 0 and 1 are sums of the upper rows, 2 and 3 of the lower
// rows; 4 and 5 hold `deep` numbers of each upper and lower row; 6 and 7 hold the weights.
class Amx {
 public:
  Amx() { shape = {}; }  // other code of this thread may have set other shapes
  ~Amx() {
    if (shape.palette) _tile_release();
  }
  static void shape_for(int upper, int lower, int deep) {
    if (shape.rows[0] == upper && shape.rows[2] == lower && shape.rows[6] == deep / 2) return;
    shape = {};
    shape.palette = 1;
    for (int tile = 0; tile < 8; tile++) {
      bool low = tile == 2 || tile == 3 || tile == 5, numbers = tile == 4 || tile == 5;
      int rows = tile > 5 ? deep / 2 : low ? lower : upper;
      shape.rows[tile] = (uint8_t)rows;
      shape.bytes[tile] = (uint16_t)(rows ? (numbers ? sizeof(bf16) * deep : 64) : 0);
    }
    stored();
    _tile_loadconfig(&shape);
  }

 private:
  struct alignas(64) Shape {
    uint8_t palette, first_row, unused[14];
    uint16_t bytes[16];  // bytes of a row
    uint8_t rows[16];
  };
  static thread_local Shape shape;
};
thread_local Amx::Shape Amx::shape;

// Below, the addresses of tiles are in brackets, because early compilers of AMX have a macro that
// lacks them.

// Computes the sums of up to 32 rows x [rows][inner] with a panel. next(k) returns the weights of
// inputs k to k + 31, [pair of inputs][output][2].
template <class Next>
INLINE void amx_sums(int64_t inner, const bf16* x, int rows, float* out, Next next) {
  const int upper = rows < TALL ? rows : TALL, lower = rows - upper;
  const int64_t line = sizeof(bf16) * inner;
  Amx::shape_for(upper, lower, DEEP);
  shown(x, rows, line, line), shown(out, rows, PANEL_PAIR, PANEL_PAIR);
  _tile_zero(0);
  _tile_zero(1);
  if (lower) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < inner; k += DEEP) {
    stored();  // the loads of the last pass stay before the stores of next
    const uint8_t* weights = next(k);
    shown(weights, DEEP / 2, PANEL_PAIR, PANEL_PAIR);
    stored();
    _tile_loadd(6, (weights), PANEL_PAIR);
    _tile_loadd(7, (weights + PANEL_PAIR / 2), PANEL_PAIR);
    _tile_loadd(4, (x + k), line);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!lower) continue;
    _tile_loadd(5, (x + TALL * inner + k), line);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float* below = out + PANEL_PAIR / sizeof(float) * TALL;
  _tile_stored(0, (out), PANEL_PAIR);
  _tile_stored(1, (out + LANES), PANEL_PAIR);
  if (!lower) return;
  _tile_stored(2, (below), PANEL_PAIR);
  _tile_stored(3, (below + LANES), PANEL_PAIR);
}

// Like `score` of decoder.cpp, with all blocks of 16 keys.
void amx_scores(int count, const bf16* q, const bf16* keys, int blocks, int64_t head, float* out,
                int64_t stride) {
  const int64_t line = sizeof(bf16) * head, next = sizeof(float) * stride;
  Amx::shape_for(count, 0, DEEP);
  shown(q, count, line, line), shown(keys, blocks, LANES * line, LANES * line);
  shown(out, count, next, blocks * LANES * sizeof(float));
  stored();
  for (int b = 0; b < blocks; b++, keys += LANES * head, out += LANES) {
    _tile_zero(0);
    for (int64_t d = 0; d < head; d += DEEP) {
      _tile_loadd(4, (q + d), line);
      _tile_loadd(6, (keys + LANES * d), 64);
      _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, (out), next);
  }
}

// Like `mix`. Each block of 16 tokens is a separate product, half as deep as possible, because a
// block that is gathered for one row has no neighbour.
void amx_mix(int count, const bf16* weights, int64_t stride, const bf16* values, int blocks,
             int64_t head, float* sums) {
  const int64_t line = sizeof(float) * head;  // bytes of two tokens' values, and of one's sums
  const int64_t next = sizeof(bf16) * stride;
  Amx::shape_for(count, 0, LANES);
  shown(weights, count, next, blocks * LANES * sizeof(bf16)), shown(sums, count, line, line);
  shown(values, blocks * LANES / 2, line, line);
  stored();
  for (int64_t d = 0; d < head; d += 2 * LANES) {
    _tile_loadd(0, (sums + d), line);
    _tile_loadd(1, (sums + d + LANES), line);
    for (int b = 0; b < blocks; b++) {
      const bf16* pairs = values + b * LANES * head + 2 * d;
      _tile_loadd(4, (weights + b * LANES), next);
      _tile_loadd(6, (pairs), line);
      _tile_loadd(7, (pairs + 2 * LANES), line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, (sums + d), line);
    _tile_stored(1, (sums + d + LANES), line);
  }
}

}  // namespace
#else
static bool amx_works() { return false; }
struct Amx {
  ~Amx() {}
};
template <class Next>
INLINE void amx_sums(int64_t, const bf16*, int, float*, Next) {}
INLINE void amx_scores(int, const bf16*, const bf16*, int, int64_t, float*, int64_t) {}
INLINE void amx_mix(int, const bf16*, int64_t, const bf16*, int, int64_t, float*) {}
#endif
