// Choices from rows of logits: the largest logits and their log-probabilities.
#pragma once
#include "threads.h"
#include "vectors.h"

#include <algorithm>
#include <utility>
#include <vector>

template <class T>
INLINE float widened_one(T value) {
  if constexpr (sizeof(T) == sizeof(float)) return value;
  uint32_t word = (uint32_t)value << 16;
  float wide;
  memcpy(&wide, &word, sizeof wide);
  return wide;
}

INLINE bool any_above(Floats v, float limit) {  // also true for NaN
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(limit), _CMP_NLE_UQ);
#elif defined(__AVX__)
  int found = 0;
  for (Part one : parts(v).each)
    found |= _mm256_movemask_ps(_mm256_cmp_ps((__m256)one, _mm256_set1_ps(limit), _CMP_NLE_UQ));
  return found;
#else
  float part[LANES];
  store(part, v);
  bool found = false;
  for (int i = 0; i < LANES; i++) found |= !(part[i] <= limit);
  return found;
#endif
}

// Returns the largest number.
template <class T>
static float maximum(const T* x, int64_t count) {
  Floats best = all(-INFINITY);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) best = largest(Number<T>::load(x + i), best);
  float found = most(best);
  for (; i < count; i++) found = std::max(found, widened_one(x[i]));
  return found;
}

// Returns the column of the largest number, the first on a tie.
template <class T>
static int64_t argmax(const T* x, int64_t count) {
  float best = maximum(x, count), below = std::nextafterf(best, -INFINITY);
  int64_t i = 0;
  if (best > below)  // false if all are -inf
    while (i + LANES <= count && !any_above(Number<T>::load(x + i), below)) i += LANES;
  for (; i < count; i++)
    if (widened_one(x[i]) == best) return i;
  return 0;  // all are NaN
}

// log(sum(exp(x)))
template <class T>
static float log_sum_exp(const T* x, int64_t count) {
  float best = maximum(x, count), rest[LANES];
  Floats total = {};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) total += exponential(Number<T>::load(x + i) - best);
  if (i < count) {
    std::fill(rest, rest + LANES, -INFINITY);
    for (int64_t n = i; n < count; n++) rest[n - i] = widened_one(x[n]);
    total += exponential(load(rest) - best);
  }
  return best + logf(sum(total));
}

using Ranked = std::pair<float, int32_t>;  // a number and its column
static bool above(const Ranked& a, const Ranked& b) {  // NaN is above all numbers
  return a.first > b.first || (std::isnan(a.first) && !std::isnan(b.first));
}

// Puts a value into a heap with the smallest number first: moves the hole down along the smaller
// children, the right one on a tie, and then the value up to its position.
static void sift(Ranked* heap, int64_t size, int64_t hole, Ranked value) {
  int64_t top = hole;
  for (int64_t child; (child = 2 * hole + 1) < size; hole = child) {
    if (child + 1 < size && !above(heap[child + 1], heap[child])) child++;
    heap[hole] = heap[child];
  }
  for (int64_t parent; hole > top && above(heap[parent = (hole - 1) / 2], value); hole = parent)
    heap[hole] = heap[parent];
  heap[hole] = value;
}

// Writes the k largest numbers, in order, into found [k]. The algorithm is torch.topk's, so that
// ties give the same choice and order; for few numbers, if both use the same standard library.
template <class T>
static void top(const T* x, int64_t count, int64_t k, Ranked* found) {
  auto ranked = [&](int64_t i) { return Ranked{widened_one(x[i]), (int32_t)i}; };
  if (64 * k > count) {
    std::vector<Ranked> every(count);
    for (int64_t i = 0; i < count; i++) every[i] = ranked(i);
    std::nth_element(every.begin(), every.begin() + k - 1, every.end(), above);
    std::sort(every.begin(), every.begin() + k - 1, above);
    std::copy(every.begin(), every.begin() + k, found);
    return;
  }
  for (int64_t i = 0; i < k; i++) found[i] = ranked(i);
  for (int64_t i = k / 2; i--;) sift(found, k, i, found[i]);
  for (int64_t begin = k; begin < count; begin += LANES) {
    int64_t end = std::min(begin + LANES, count);
    if (end - begin == LANES && !any_above(Number<T>::load(x + begin), found->first)) continue;
    for (int64_t i = begin; i < end; i++)
      if (above(ranked(i), *found)) sift(found, k, 0, ranked(i));
  }
  for (int64_t last = k; --last > 0;) {
    Ranked value = found[last];
    found[last] = found[0];
    sift(found, last, 0, value);
  }
}

// Like `top`, by blocks of the row: the k largest are in the k blocks with the largest maxima.
template <class T>
static void top_of_blocks(const T* x, int64_t count, int64_t k, int64_t block, Ranked* found) {
  std::vector<float> maxima(count / block);
  for (size_t b = 0; b < maxima.size(); b++) maxima[b] = maximum(x + b * block, block);
  std::vector<Ranked> best(k);
  top(maxima.data(), (int64_t)maxima.size(), k, best.data());
  std::vector<T> within(k * block);
  for (int64_t b = 0; b < k; b++)
    std::copy_n(x + best[b].second * block, block, within.data() + b * block);
  top(within.data(), k * block, k, found);
  for (int64_t i = 0; i < k; i++) {
    auto& place = found[i].second;
    place = (int32_t)(best[place / block].second * block + place % block);
  }
}

struct Logits {
  const void* numbers;  // rows of `columns` numbers each, `stride` apart
  int64_t stride, columns;
  const int64_t* rows;  // [count]: the rows to read
  int64_t count;
};

constexpr int64_t MUCH = 200'000;  // numbers that take longer than waking a thread

// Calls work(n) for each row to read, in several threads if they have more than MUCH numbers.
template <class Work>
static void each_row(const Logits& l, const Threads& threads, Work work) {
  std::atomic<int> next{0};
  auto some = [&](int) {
    for (int n; (n = next.fetch_add(1, std::memory_order_relaxed)) < l.count;) work(n);
  };
  Team team(0);
  l.count > 1 && l.count * l.columns > MUCH ? together(threads, team, some) : some(0);
}

template <class T>
static void argmax_of(const Logits& l, int32_t* chosen, const Threads& threads) {
  each_row(l, threads, [&](int n) {
    chosen[n] = (int32_t)argmax((const T*)l.numbers + l.rows[n] * l.stride, l.columns);
  });
}

// chosen [count, k]: columns; shares [count, k]: their log-probabilities, or null; block: columns
// of a block, or 0 to read the row at once.
template <class T>
static void top_of(const Logits& l, int64_t k, int64_t block, int32_t* chosen, float* shares,
                   const Threads& threads) {
  each_row(l, threads, [&](int n) {
    std::vector<Ranked> found(k);
    const T* x = (const T*)l.numbers + l.rows[n] * l.stride;
    if (block) {
      top_of_blocks(x, l.columns, k, block, found.data());
    } else {
      top(x, l.columns, k, found.data());
    }
    float total = shares ? log_sum_exp(x, l.columns) : 0;
    for (int64_t i = 0; i < k; i++) {
      chosen[n * k + i] = found[i].second;
      if (shares) shares[n * k + i] = found[i].first - total;
    }
  });
}

#if !defined(__wasm__)
extern "C" {
void ouroboros_argmax(const Logits* l, int32_t* chosen, const Threads* threads, int half) {
  half ? argmax_of<bf16>(*l, chosen, *threads) : argmax_of<float>(*l, chosen, *threads);
}
void ouroboros_top(const Logits* l, int64_t k, int64_t block, int32_t* chosen, float* shares,
                   const Threads* threads, int half) {
  half ? top_of<bf16>(*l, k, block, chosen, shares, *threads)
       : top_of<float>(*l, k, block, chosen, shares, *threads);
}
float ouroboros_log_sum_exp(const void* x, int64_t count, int half) {
  return half ? log_sum_exp((const bf16*)x, count) : log_sum_exp((const float*)x, count);
}
}
#endif
