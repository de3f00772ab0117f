// Weights in blocks of 32 inputs of an output: a number of 4 or 8 bits for each input, and one or
// two scales, as a GGUF file stores them, or 8 bits and a scale of 32 bits, as drafts have them.
// A block is read as the nearest bfloat16 numbers, so that the products and the order of their
// addition equal the computation with bfloat16 weights.
//
// In memory a group holds the blocks of a panel's 32 outputs: first their scales, then for each of
// the 16 pairs of inputs the numbers of outputs 0-15 and of outputs 16-31 (made by Blocks.packed in
// blocks.py).
#pragma once
#include "vectors.h"

constexpr int INPUTS = 32;  // inputs of a block
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef int32_t Whole __attribute__((vector_size(64)));

// 16 bytes as numbers, with an instruction by name because compilers convert one by one.
INLINE Words bytes(const uint8_t* p) {
  Bytes v;
  memcpy(&v, p, sizeof v);
#if defined(__AVX512F__)
  return (Words)_mm512_cvtepu8_epi32((__m128i)v);
#else
  return __builtin_convertvector(__builtin_convertvector(v, Halves), Words);
#endif
}
INLINE Floats signed_bytes(const uint8_t* p) {
#if defined(__AVX512F__)
  Bytes v;
  memcpy(&v, p, sizeof v);
  Whole w = (Whole)_mm512_cvtepi8_epi32((__m128i)v);
#else
  Whole w = (Whole)(bytes(p) << 24) >> 24;
#endif
  return __builtin_convertvector(w, Floats);
}

INLINE Floats from_half(const uint8_t* p) {  // 16 numbers of IEEE's 16 bits
  Halves h;
  memcpy(&h, p, sizeof h);
#if defined(__AVX512F__)
  __m256i held;
  memcpy(&held, &h, sizeof held);
  return (Floats)_mm512_cvtph_ps(held);
#else
  Words w = __builtin_convertvector(h, Words);
  Words size = (Words)((Floats)((w & 0x7fff) << 13) * 0x1p112f);  // another bias of the exponent
  return (Floats)(size | (w & 0x8000) << 16);
#endif
}

// Scales of 8 outputs, each twice for the two inputs of a pair.
INLINE Floats first_twice(Floats v) {
  return __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}
INLINE Floats last_twice(Floats v) {
  return __builtin_shufflevector(v, v, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
}

INLINE Words narrowed(Floats first, Floats last) {  // to bfloat16, one after the other
  Words w;
#if defined(__AVX512BF16__)
  __m512bh near = _mm512_cvtne2ps_pbh((__m512)last, (__m512)first);
  memcpy(&w, &near, sizeof w);
#else
  Halves h[2] = {narrowed(first), narrowed(last)};
  memcpy(&w, h, sizeof w);
#endif
  return w;
}

INLINE Floats nibble(Words w) {  // the lowest 4 bits
#if defined(__AVX512F__)
  const Floats sixteen = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return (Floats)_mm512_permutexvar_ps((__m512i)w, (__m512)sixteen);
#else
  return __builtin_convertvector((Whole)(w & 15), Floats);
#endif
}

// Readers of weights, the template parameter of a tile:
//   STEP   bytes of the PAIRS pairs of inputs that are opened at once
//   pair   weights of one pair for outputs 0-15 (half 0) or 16-31 (half 1)

struct FourBits {  // Q4_1: scale * number + least
  static constexpr int PAIRS = INPUTS / 2, STEP = 4 * 32 + PAIRS * 32;
  Floats scale[2][2], least[2][2];
  const uint8_t* numbers;
  INLINE void open(FourBits& r, const uint8_t* group) {
    for (int half = 0; half < 2; half++) {
      Floats scale = from_half(group + 32 * half), least = from_half(group + 64 + 32 * half);
      r.scale[half][0] = first_twice(scale), r.scale[half][1] = last_twice(scale);
      r.least[half][0] = first_twice(least), r.least[half][1] = last_twice(least);
    }
    r.numbers = group + 128;
  }
  INLINE Words pair(const FourBits& r, int k, int half) {
    Words both = bytes(r.numbers + 32 * k + 16 * half);
    return narrowed(madd(nibble(both), r.scale[half][0], r.least[half][0]),
                    madd(nibble(both >> 4), r.scale[half][1], r.least[half][1]));
  }
};

template <bool SINGLE>
struct Scaled {  // scale * number, with scales of 16 or 32 bits
  static constexpr int PAIRS = INPUTS / 2, NUMBERS = (SINGLE ? 4 : 2) * 32;
  static constexpr int STEP = NUMBERS + PAIRS * 64;
  Floats scale[2][2];
  const uint8_t* numbers;
  INLINE void open(Scaled& r, const uint8_t* group) {
    for (int half = 0; half < 2; half++) {
      Floats scale = SINGLE ? load((const float*)group + 16 * half) : from_half(group + 32 * half);
      r.scale[half][0] = first_twice(scale), r.scale[half][1] = last_twice(scale);
    }
    r.numbers = group + NUMBERS;
  }
  INLINE Words pair(const Scaled& r, int k, int half) {
    const uint8_t* p = r.numbers + 64 * k + 32 * half;
    return narrowed(signed_bytes(p) * r.scale[half][0], signed_bytes(p + 16) * r.scale[half][1]);
  }
};
using EightBits = Scaled<false>;  // Q8_0
using Rounded = Scaled<true>;     // a draft's

template <class Blocks>
struct Unpacked {  // a reader for many rows: each group is converted to bfloat16 once
  static constexpr int PAIRS = Blocks::PAIRS, STEP = Blocks::STEP;
  alignas(64) bf16 weights[PAIRS * 64];
  INLINE void open(Unpacked& r, const uint8_t* group) {
    Blocks blocks;
    Blocks::open(blocks, group);
    for (int k = 0; k < PAIRS; k++)
      for (int half = 0; half < 2; half++) {
        Words w = Blocks::pair(blocks, k, half);
        memcpy(r.weights + 64 * k + 32 * half, &w, sizeof w);
      }
  }
  INLINE Words pair(const Unpacked& r, int k, int half) {
    Words w;
    memcpy(&w, r.weights + 64 * k + 32 * half, sizeof w);
    return w;
  }
  INLINE const uint8_t* words(const Unpacked& r, int k) {
    return (const uint8_t*)(r.weights + 64 * k);
  }
};

// Counts the groups of 32 outputs and 32 inputs that differ from stored bfloat16 numbers.
template <class Blocks>
static int64_t differences(const uint8_t* blocks, const bf16* stored, int64_t groups) {
  int64_t found = 0;
  Unpacked<Blocks> group;
  for (int64_t i = 0; i < groups; i++, stored += 32 * INPUTS) {
    group.open(group, blocks + i * Blocks::STEP);
    found += memcmp(group.weights, stored, sizeof group.weights) != 0;
  }
  return found;
}

// Rounds groups of bfloat16 weights to numbers of 8 bits, from -127 to 127 times the scale of an
// output's 32 inputs, writes these blocks, and replaces the weights by what the blocks give.
static void round_groups(bf16* weights, uint8_t* blocks, int64_t groups) {
  using N = Number<bf16>;
  for (int64_t i = 0; i < groups; i++, weights += 32 * INPUTS, blocks += Rounded::STEP)
    for (int first = 0; first < 2 * 32; first += LANES) {  // 8 outputs with two inputs each
      Floats most = {};
      for (int k = 0; k < Rounded::PAIRS; k++) {
        Floats v = N::load(weights + 64 * k + first);
        v = v < 0.0f ? -v : v;
        most = v > most ? v : most;
      }
      Floats other = __builtin_shufflevector(most, most, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13,
                                             12, 15, 14);
      Floats scale = (most > other ? most : other) / 127.0f;
      auto scales = (float*)blocks + first / 2;
      for (int n = 0; n < LANES; n += 2) scales[n / 2] = scale[n];
      Floats divisor = scale > 0.0f ? scale : all(1.0f);
      for (int k = 0; k < Rounded::PAIRS; k++) {
        bf16* place = weights + 64 * k + first;
        Floats number = N::load(place) / divisor + 12582912.0f - 12582912.0f;  // rounds
        N::store(place, number * scale);
        auto numbers = (int8_t*)blocks + Rounded::NUMBERS + 64 * k + first;
        for (int n = 0; n < LANES; n++) numbers[n] = (int8_t)number[n];
      }
    }
}
