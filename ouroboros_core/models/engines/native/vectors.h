// Operations on sixteen numbers, in one, two or four instructions depending on the processor, and
// in the same order. No result depends on the number of rows computed together.
#pragma once
#include <cstdint>
#include <cstring>
#include <cmath>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#define INLINE static inline __attribute__((always_inline))

constexpr int LANES = 16;
using bf16 = uint16_t;
typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

INLINE Floats all(float value) { return Floats{} + value; }
INLINE Floats load(const float* p) {
  Floats v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE void store(float* p, Floats v) { memcpy(p, &v, sizeof v); }

// A part has as many numbers as one instruction takes. Compilers keep sixteen numbers in memory if
// no register holds them, and compare them one by one, so slow operations are written in parts.
#if defined(__AVX512F__)
constexpr int NATIVE = LANES;
#elif defined(__AVX__)
constexpr int NATIVE = 8;
#else
constexpr int NATIVE = 4;
#endif
constexpr int PARTS = LANES / NATIVE;  // parts of sixteen numbers
typedef float Part __attribute__((vector_size(4 * NATIVE)));
typedef uint32_t PartWords __attribute__((vector_size(4 * NATIVE)));

INLINE Part part(const float* p) {
  Part v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE Part spread(float a) {  // loads a number into all lanes; {} + a would compute a sum
#if defined(__AVX512F__)
  return (Part)_mm512_set1_ps(a);
#elif defined(__AVX__)
  return (Part)_mm256_set1_ps(a);
#elif defined(__aarch64__)
  return vdupq_n_f32(a);
#elif defined(__wasm_simd128__)
  return (Part)wasm_f32x4_splat(a);
#else
  return Part{} + a;
#endif
}

// a * b + c, rounded once if the processor can. The compiler must not choose, as it could choose
// differently for one row and for many.
INLINE Part madd(Part a, Part b, Part c) {
#if defined(__AVX512F__)
  return (Part)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Part)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#elif defined(__wasm_relaxed_simd__)  // in one browser either always or never rounded once
  return (Part)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c);
#else
  return a * b + c;
#endif
}
INLINE Part madd(float a, Part b, Part c) { return madd(spread(a), b, c); }
INLINE Part largest(Part a, Part b) {
#if defined(__AVX512F__)
  return (Part)_mm512_max_ps((__m512)a, (__m512)b);
#else
  return a > b ? a : b;
#endif
}

// Whether a loop over numbers of type T uses parts of sixteen numbers.
template <class T>
constexpr bool IN_PARTS = NATIVE < LANES && sizeof(T) == sizeof(float);
template <class T>  // Whether T is bfloat16.
constexpr bool HALF = sizeof(T) == sizeof(bf16);

// e^x, at least e^-87: a polynomial of degree 5 around the nearest power of two (coefficients of
// Cephes).
INLINE Part exponential(Part x) {
  x = largest(x, spread(-87.0f));
  x = x < 88.0f ? x : spread(88.0f);
  Part shifted = madd(x, spread(1.44269504f), spread(12582912.0f));  // 1.5 * 2^23: rounds
  Part power = shifted - 12582912.0f;
  Part rest = madd(power, spread(-0.693359375f), x);
  rest = madd(power, spread(2.12194440e-4f), rest);
  Part value = spread(1.9875691500e-4f);
  value = madd(value, rest, spread(1.3981999507e-3f));
  value = madd(value, rest, spread(8.3334519073e-3f));
  value = madd(value, rest, spread(4.1665795894e-2f));
  value = madd(value, rest, spread(1.6666665459e-1f));
  value = madd(value, rest, spread(5.0000001201e-1f));
  value = madd(value, rest * rest, rest + 1.0f);
  PartWords scale = (((PartWords)shifted) << 23) + 0x3f800000u;
  return value * (Part)scale;
}
#if !defined(__AVX512F__)
// The same operations on sixteen numbers in several parts.
struct Parts {
  Part each[PARTS];
};
INLINE Parts parts(Floats v) {
  Parts p;
  memcpy(&p, &v, sizeof p);
  return p;
}
INLINE Floats joined(Parts p) {
  Floats v;
  memcpy(&v, &p, sizeof v);
  return v;
}
INLINE void store(float* p, Part v) { memcpy(p, &v, sizeof v); }
INLINE Floats madd(Floats a, Floats b, Floats c) {
  Parts x = parts(a), y = parts(b), z = parts(c);
  for (int i = 0; i < PARTS; i++) z.each[i] = madd(x.each[i], y.each[i], z.each[i]);
  return joined(z);
}
INLINE Floats largest(Floats a, Floats b) {
  Parts x = parts(a), y = parts(b);
  for (int i = 0; i < PARTS; i++) x.each[i] = largest(x.each[i], y.each[i]);
  return joined(x);
}
INLINE Floats exponential(Floats v) {
  Parts x = parts(v);
  for (int i = 0; i < PARTS; i++) x.each[i] = exponential(x.each[i]);
  return joined(x);
}
#endif

INLINE float sum(Floats v) {  // always halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1
  float part[LANES];
  store(part, v);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}
INLINE float most(Floats v) {
  float part[LANES];
  store(part, v);
  float found = part[0];
  for (int i = 1; i < LANES; i++) found = part[i] > found ? part[i] : found;
  return found;
}

INLINE Floats widened(Halves h) { return (Floats)(__builtin_convertvector(h, Words) << 16); }
INLINE Halves narrowed(Floats v) {  // to the nearest, ties to even
#if defined(__AVX512BF16__)
  __m256bh near = _mm512_cvtneps_pbh((__m512)v);
  Halves h;
  memcpy(&h, &near, sizeof h);
  return h;
#else
  Words w = (Words)v;
  return __builtin_convertvector((w + 0x7fff + ((w >> 16) & 1)) >> 16, Halves);
#endif
}

// Operations in the two types in which a model can compute. Weights are bfloat16 in both.
//   load, store  for 16 numbers
//   rounded      rounded to this type
//   Pair         two rows of 16 weights in words of two
//   dot          adds the products of a Pair with two numbers
template <class T>
struct Number;

template <>
struct Number<float> {
  struct Pair {
    Floats even, odd;
  };
  INLINE Floats load(const float* p) { return ::load(p); }
  INLINE void store(float* p, Floats v) { ::store(p, v); }
  INLINE Floats rounded(Floats v) { return v; }
  INLINE Pair pair(Words w) { return {(Floats)(w << 16), (Floats)(w & 0xffff0000u)}; }
  INLINE Pair pair(const float* p) { return {::load(p), ::load(p + LANES)}; }
  INLINE Floats dot(Floats sum, const float* x, Pair w) {
    return madd(all(x[1]), w.odd, madd(all(x[0]), w.even, sum));
  }
  // Index of lane i's element d (even, odd) in a pair that `pair` reads.
  INLINE int place(int i, int d) { return LANES * d + i; }
};

template <>
struct Number<bf16> {
  using Pair = Words;
  INLINE Floats load(const bf16* p) {
    Halves h;
    memcpy(&h, p, sizeof h);
    return widened(h);
  }
  INLINE void store(bf16* p, Floats v) {
    Halves h = narrowed(v);
    memcpy(p, &h, sizeof h);
  }
  INLINE Floats rounded(Floats v) { return widened(narrowed(v)); }
  INLINE Pair pair(Words w) { return w; }
  INLINE Pair pair(const bf16* weights) {
    Words w;
    memcpy(&w, weights, sizeof w);
    return w;
  }
  INLINE Floats dot(Floats sum, const bf16* x, Pair w) {
    uint32_t both;
    memcpy(&both, x, sizeof both);
#if defined(__AVX512BF16__)
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)both),
                                    (__m512bh)w);
#else
    Words wide = Words{} + both;
    sum = madd((Floats)(wide << 16), (Floats)(w << 16), sum);
    return madd((Floats)(wide & 0xffff0000u), (Floats)(w & 0xffff0000u), sum);
#endif
  }
  INLINE int place(int i, int d) { return 2 * i + d; }
};
