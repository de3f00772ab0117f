// Random choices from a row of logits, with the noise of sampling.py: numpy's Philox generator and
// its exponential distribution, so that the same logits give the same choice.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// Philox4x64 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
class Philox {
 public:
  Philox(uint64_t seed, uint64_t position, uint64_t turn, uint64_t question)
      : key{seed, position}, counter{0, turn, 0, question << 1} {}
  uint64_t next() {
    if (used == 4) generate();
    return numbers[used++];
  }
  double unit() { return (double)(next() >> 11) * 0x1p-53; }

 private:
  uint64_t key[2], counter[4], numbers[4];
  int used = 4;

  static uint64_t high(uint64_t a, uint64_t b) {  // of the product's 128 bits
    uint64_t low_a = a & 0xffffffff, high_a = a >> 32, low_b = b & 0xffffffff, high_b = b >> 32;
    uint64_t first = high_a * low_b + (low_a * low_b >> 32);
#if defined(__wasm__)
    asm("" : "+r"(first));  // or the compiler calls a function for 128 bits that is not there
#endif
    uint64_t second = low_a * high_b + (first & 0xffffffff);
    return high_a * high_b + (first >> 32) + (second >> 32);
  }
  void generate() {
    constexpr uint64_t A = 0xD2E7470EE14C6C93, B = 0xCA5A826395121157;
    for (int i = 0; i < 4 && !++counter[i]; i++) {
    }
    uint64_t x[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
      uint64_t a = A * x[0], b = B * x[2], high_a = high(A, x[0]), high_b = high(B, x[2]);
      x[0] = high_b ^ x[1] ^ k[0], x[1] = b, x[2] = high_a ^ x[3] ^ k[1], x[3] = a;
      k[0] += 0x9E3779B97F4A7C15, k[1] += 0xBB67AE8584CAA73B;
    }
    std::copy(x, x + 4, numbers);
    used = 0;
  }
};

// Numbers with the density e^-x, by a ziggurat of 256 layers of equal area (Marsaglia and Tsang,
// "The ziggurat method for generating random variables"). A number has 53 random bits.
class Exponential {
 public:
  Exponential() {
    double edge = LAST, above = edge, base = AREA / std::exp(-edge);
    inside[0] = (uint64_t)(edge / base * 0x1p53), inside[1] = 0;
    width[0] = base * 0x1p-53, width[255] = edge * 0x1p-53;
    height[0] = 1.0, height[255] = std::exp(-edge);
    for (int i = 254; i >= 1; i--) {
      edge = -std::log(AREA / edge + std::exp(-edge));
      inside[i + 1] = (uint64_t)(edge / above * 0x1p53);
      above = edge;
      height[i] = std::exp(-edge), width[i] = edge * 0x1p-53;
    }
  }
  double draw(Philox& random) const {
    for (;;) {
      uint64_t bits = random.next() >> 3, place = bits >> 8;
      int layer = bits & 255;
      double x = (double)place * width[layer];
      if (place < inside[layer]) return x;
      if (layer == 0) return LAST - std::log1p(-random.unit());
      double step = height[layer - 1] - height[layer];
      if (step * random.unit() + height[layer] < std::exp(-x)) return x;
    }
  }

 private:
  static constexpr double LAST = 7.69711747013104972, AREA = 3.9496598225815571993e-3;
  uint64_t inside[256];
  double width[256], height[256];
};

// Settings of a choice; see `Draw` in tree.py.
struct Draw {
  double temperature, top_p;
  int64_t top_k;
  uint64_t seed, position, turn, question;
  bool same_noise(const Draw& other) const {
    return seed == other.seed && position == other.position && turn == other.turn &&
           question == other.question;
  }
};

// Returns the Gumbel noise of every token id. The last ones are kept: target and draft model need
// the same.
static const std::vector<double>& noise(const Draw& draw, int64_t vocabulary) {
  struct Entry {
    Draw draw;
    std::vector<double> noise;
  };
  static const Exponential exponential;
  static auto& entries = *new std::vector<Entry>;
  static size_t oldest = 0;
  for (const Entry& entry : entries)
    if (entry.draw.same_noise(draw) && (int64_t)entry.noise.size() >= vocabulary)
      return entry.noise;
  constexpr size_t MOST_ENTRIES = 16;
  if (entries.size() < MOST_ENTRIES) {
    oldest = entries.size();
    entries.emplace_back();
  }
  Entry& entry = entries[oldest];
  oldest = (oldest + 1) % MOST_ENTRIES;
  entry.draw = draw;
  entry.noise.resize(vocabulary);
  Philox random(draw.seed, draw.position, draw.turn, draw.question);
  for (double& number : entry.noise) number = -std::log(exponential.draw(random));
  return entry.noise;
}

// Changes scores to -infinity outside the likeliest tokens, as `process` of sampling.py does.
static void restrict_scores(std::vector<double>& scores, const Draw& draw) {
  int64_t count = (int64_t)scores.size();
  if (draw.top_k > 0 && draw.top_k < count) {
    std::vector<double> sorted = scores;
    std::nth_element(sorted.begin(), sorted.begin() + (draw.top_k - 1), sorted.end(),
                     std::greater<>());
    double edge = sorted[draw.top_k - 1];
    for (double& score : scores)
      if (score < edge) score = -INFINITY;
  }
  if (draw.top_p >= 1.0) return;
  double largest = *std::max_element(scores.begin(), scores.end()), total = 0, mass = 0;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < count; i++) {
    total += std::exp(scores[i] - largest);
    order.push_back(i);
  }
  // A token is left out if it and all less likely ones have at most the mass 1 - top_p.
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
  });
  for (int64_t i = 0; i < count - 1; i++) {
    mass += std::exp(scores[order[i]] - largest);
    if (mass > (1.0 - draw.top_p) * total) break;
    scores[order[i]] = -INFINITY;
  }
}

// Writes up to k columns with the largest log-probability plus noise, the largest first, and
// returns their number. Column i has the token id ids[i], or i if `ids` is null.
static int draw_columns(const float* logits, int64_t columns, const int32_t* ids,
                        int64_t vocabulary, const Draw& draw, int k, int32_t* chosen) {
  constexpr double TINY = 1e-100;  // below it a division may overflow
  std::vector<double> scores(logits, logits + columns);
  double largest = draw.temperature < TINY ? *std::max_element(scores.begin(), scores.end()) : 0;
  for (double& score : scores) score = (score - largest) / draw.temperature;
  restrict_scores(scores, draw);
  largest = *std::max_element(scores.begin(), scores.end());
  const std::vector<double>& gumbel = noise(draw, vocabulary);
  std::vector<std::pair<double, int32_t>> best;
  for (int32_t i = 0; i < columns; i++)
    if (std::exp(scores[i] - largest) > 0)  // impossible tokens are left out
      best.push_back({-(scores[i] + gumbel[ids ? ids[i] : i]), i});
  k = (int)std::min<size_t>(k, best.size());
  std::partial_sort(best.begin(), best.begin() + k, best.end());
  for (int i = 0; i < k; i++) chosen[i] = best[i].second;
  return k;
}
