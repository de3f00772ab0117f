// The native pass for a browser: models with their caches, and choices from their logits.
// `visualize/live/pass.js` calls these functions and computes logarithms and sines; `build.py`
// compiles them without a C library.
#include "decoder.cpp"
#include "draw.h"
#include "memory.h"

#include <vector>

#define EXPORT(name) __attribute__((export_name(#name))) name

constexpr int64_t GRAIN = 256;  // the capacity of a cache grows in multiples of this many rows
constexpr int ROWS = 3;  // kind of a matrix of 8-bit numbers [outer][inner], then a factor a row
static const Threads ALONE{nullptr, nullptr, nullptr, 1};

template <class T>
static T* room(int64_t count) {
  return (T*)aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64);
}

struct Model {
  Decoder decoder;
  float theta;
  int64_t vocabulary;
  std::vector<Layer> layers;
  Matrix embeddings, output;
  std::vector<int32_t> ids;  // token id of each output, ascending; none for all token ids
  std::vector<void*> keys, values, watched;
  std::vector<uint8_t> skipped;
  std::vector<float> cos, sin;
  int64_t capacity = 0;
  // Of a target with a head, and of the head: each cached row's last state, and its states after
  // some layers.
  void* features = nullptr;  // [capacity][1 + depths][width]
  int64_t states = 0;        // 1 + depths, or 0
  std::vector<int32_t> depths;
  // Of a head:
  Model* target = nullptr;
  Matrix join, deeper;           // feature and embedding -> input; states of the depths -> feature
  std::vector<float> continued;  // [rows][width] features that the next rows continue

  int64_t columns() const { return output.outer; }
  int32_t token(int64_t column) const { return ids.empty() ? (int32_t)column : ids[column]; }
  // Returns the column of a token id, or -1.
  int64_t column(int32_t token) const {
    if (ids.empty()) return token < columns() ? token : -1;
    auto place = std::lower_bound(ids.begin(), ids.end(), token);
    return place != ids.end() && *place == token ? place - ids.begin() : -1;
  }
  const float* row(const float* logits, int64_t row) const { return logits + row * columns(); }
};

// The weight of an output and an input in a matrix of bfloat16 strips; see decoder.cpp.
static bf16* place(const Matrix& w, int64_t output, int64_t input) {
  int64_t first = input / STRIP * STRIP, count = std::min<int64_t>(STRIP, w.inner - first);
  auto strip = (bf16*)w.panels + output / PANEL * w.inner * PANEL + first * PANEL;
  return strip + output % PANEL / LANES * LANES * count + (input - first) / 2 * 2 * LANES +
         2 * (output % LANES) + input % 2;
}

// Returns the bfloat16 strips of a matrix in blocks: one for each group.
template <class Blocks>
static uint8_t* unpacked(const uint8_t* blocks, int64_t groups) {
  auto strips = room<uint8_t>(groups * sizeof(Unpacked<Blocks>::weights));
  Unpacked<Blocks> group;
  for (int64_t i = 0; strips && i < groups; i++) {
    Matrix strip{strips + i * sizeof group.weights, INPUTS};
    group.open(group, blocks + i * Blocks::STEP);
    for (int half = 0; half < PANEL; half += LANES)
      for (int k = 0; k < INPUTS; k += 2)
        memcpy(place(strip, half, k), group.weights + PANEL * k + 2 * half, sizeof(Words));
  }
  return strips;
}

// Returns the bfloat16 strips of 8-bit numbers with a factor for each output.
static uint8_t* unpacked_rows(const uint8_t* data, Matrix w) {
  int64_t size = panels(w) * PANEL * w.inner;
  auto factors = (const float*)(data + w.outer * w.inner);
  auto weights = room<bf16>(size);
  w.panels = (const uint8_t*)weights;
  if (weights) memset(weights, 0, size * sizeof(bf16));
  for (int64_t i = 0; weights && i < w.outer; i++)
    for (int64_t k = 0; k < w.inner; k++) {
      float weight = (float)(int8_t)data[i * w.inner + k] * factors[i];
      uint32_t word;
      memcpy(&word, &weight, sizeof word);  // rounded to the nearest, ties to even
      *place(w, i, k) = (bf16)((word + 0x7fff + ((word >> 16) & 1)) >> 16);
    }
  return (uint8_t*)weights;
}

// A tensor of a cache, [heads][capacity] rows of `bytes` bytes; its memory may be null.
struct Tensor {
  void** memory;
  int64_t heads, bytes;
};
static std::vector<Tensor> cache_of(Model& m) {
  std::vector<Tensor> tensors;
  for (auto* held : {&m.keys, &m.values})
    for (void*& memory : *held)
      tensors.push_back({&memory, m.decoder.shared, m.decoder.head * (int64_t)sizeof(float)});
  if (m.states)
    tensors.push_back({&m.features, 1, m.states * m.decoder.width * (int64_t)sizeof(float)});
  return tensors;
}

// Fills the angles of further positions, in single precision as transformers computes them.
static void turn(Model& m, int64_t positions) {
  int64_t head = m.decoder.head;
  for (int64_t position = (int64_t)m.cos.size() / head; position < positions; position++)
    for (int64_t i = 0; i < head; i++) {
      float exponent = (float)(2 * (i % (head / 2))) / (float)head;
      float angle = (float)position * (1.0f / powf(m.theta, exponent));
      m.cos.push_back(cosf(angle)), m.sin.push_back(sinf(angle));
    }
}

extern "C" {

void* EXPORT(web_room)(int bytes) { return room<uint8_t>(bytes); }
void EXPORT(web_free)(void* memory) { free(memory); }

Model* EXPORT(web_model)(int width, int heads, int shared, int head, int middle, int layers,
                         float eps, float theta, int vocabulary) {
  auto m = new Model{};
  m->layers.resize(layers);
  m->keys.resize(layers), m->values.resize(layers), m->watched.resize(layers);
  m->skipped.resize(layers);
  m->decoder = {width,  heads, shared, head, middle, layers, eps, 1 / sqrtf((float)head),
                m->layers.data(), nullptr};
  m->theta = theta, m->vocabulary = vocabulary;
  return m;
}

// Takes over the memory of a matrix as browser.py writes it. Place 0 to 4 of a layer is a field of
// `Layer`; layer -1 has the embeddings, which are the output matrix too, or at places 1 and 2 the
// matrices `join` and `deeper` of a head. Returns whether there is memory for its panels.
int EXPORT(web_matrix)(Model* m, int layer, int place, int inner, int outer, int kind,
                       uint8_t* data) {
  Matrix w{data, inner, outer, nullptr, BFLOAT16};
  int64_t groups = (int64_t)inner / INPUTS * panels(w);
  if (kind != BFLOAT16) {
    w.panels = kind == ROWS   ? unpacked_rows(data, w)
               : kind == Q4_1 ? unpacked<FourBits>(data, groups)
                              : unpacked<EightBits>(data, groups);
    free(data);
  }
  if (layer >= 0) {
    Layer& y = m->layers[layer];
    Matrix* places[] = {&y.qkv, &y.out, &y.gate, &y.up, &y.down};
    *places[place] = w;
  } else if (place) {
    (place == 1 ? m->join : m->deeper) = w;
  } else {
    m->embeddings = m->output = w;
  }
  return w.panels != nullptr;
}

// Takes over the weights of a norm: at place 0 or 1 of a layer, or for layer -1 the last one.
void EXPORT(web_norm)(Model* m, int layer, int place, const float* weights) {
  if (layer < 0) {
    m->decoder.norm = weights;
  } else {
    (place ? m->layers[layer].norm_mid : m->layers[layer].norm_in) = weights;
  }
}

// Reads the embeddings and the output matrix of another model.
void EXPORT(web_share)(Model* m, const Model* other) {
  m->embeddings = other->embeddings, m->output = other->output;
}

// Restricts the outputs to some token ids, in ascending order.
int EXPORT(web_outputs)(Model* m, const int32_t* ids, int count) {
  Matrix some = m->output;
  some.outer = count;
  int64_t size = panels(some) * PANEL * some.inner;
  auto weights = room<bf16>(size);
  if (!weights) return 0;
  memset(weights, 0, size * sizeof(bf16));
  some.panels = (const uint8_t*)weights;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < some.inner; k += 2)
      memcpy(place(some, i, k), place(m->output, ids[i], k), 2 * sizeof(bf16));
  m->output = some;
  m->ids.assign(ids, ids + count);
  return 1;
}

// Makes of a model the head of a target, whose states after some layers it reads. The target keeps
// its features from now on; its cache must be empty.
void EXPORT(web_head)(Model* m, Model* target, const int32_t* depths, int count) {
  m->target = target, m->states = 1;
  target->depths.assign(depths, depths + count);
  target->states = 1 + count, target->capacity = 0;
}

// Says which features the next rows of a head continue: its own guesses in some slots of its cache,
// or the features in those of the target's.
void EXPORT(web_continue)(Model* m, const int32_t* slots, int count, int guesses) {
  const Model& from = guesses ? *m : *m->target;
  int64_t width = m->decoder.width, inner = m->deeper.inner;
  m->continued.resize(count * width);
  Buffer<float> states(count * inner), sums(count * width);
  std::vector<float> ones(width, 1.0f);
  for (int64_t row = 0; row < count; row++) {
    const float* feature = (float*)from.features + slots[row] * from.states * width;
    memcpy(&m->continued[row * width], feature, width * sizeof(float));
    for (int64_t n = 1; n < from.states; n++)
      normalise(feature + n * width, ones.data(), states + row * inner + (n - 1) * width, width,
                m->decoder.eps);
  }
  if (guesses) return;
  multiply<float>(m->deeper, states, sums, count, ALONE);
  for (int64_t i = 0; i < count * width; i++) m->continued[i] += sums[i];
}

// Makes the cache large enough; returns whether there is memory.
int EXPORT(web_reserve)(Model* m, int rows) {
  if (rows <= m->capacity) return 1;
  int64_t capacity = std::max<int64_t>(rows, 2 * m->capacity);
  capacity = (capacity + GRAIN - 1) / GRAIN * GRAIN;
  std::vector<char*> larger;
  for (const Tensor& tensor : cache_of(*m)) {
    larger.push_back(room<char>(tensor.heads * capacity * tensor.bytes));
    if (!larger.back()) {  // the cache stays as it is
      for (char* other : larger) free(other);
      return 0;
    }
  }
  auto next = larger.begin();
  for (const Tensor& tensor : cache_of(*m)) {
    auto held = (const char*)*tensor.memory;
    for (int64_t h = 0; held && h < tensor.heads; h++)
      memcpy(*next + h * capacity * tensor.bytes, held + h * m->capacity * tensor.bytes,
             m->capacity * tensor.bytes);
    free(*tensor.memory);
    *tensor.memory = *next++;
  }
  m->capacity = capacity;
  return 1;
}

void EXPORT(web_keep)(Model* m, int start, const int32_t* rows, int count) {
  std::vector<Rows> tensors;
  for (const Tensor& tensor : cache_of(*m))
    if (*tensor.memory) tensors.push_back({(char*)*tensor.memory, tensor.heads, tensor.bytes});
  std::vector<int64_t> wide(rows, rows + count);
  ouroboros_keep(tensors.data(), (int64_t)tensors.size(), m->capacity, start, wide.data(), count);
}

// Computes rows; returns the logits [scored, columns] of some of them in new memory, or null.
//   numbers  tokens [rows], positions [rows], straight [rows], begin [rows + 1], slots [count_slots]
//            and the scored rows [count]
float* EXPORT(web_run)(Model* m, int rows, int past, const int32_t* numbers, int count_slots,
                       int count) {
  const int32_t *tokens = numbers, *positions = tokens + rows, *straight = positions + rows,
                *begin = straight + rows, *slots = begin + rows + 1, *scored = slots + count_slots;
  int64_t width = m->decoder.width;
  Buffer<float> x(rows * width), hidden(rows * width), chosen(count * width);
  std::vector<int64_t> wide(positions, positions + rows);
  turn(*m, 1 + *std::max_element(wide.begin(), wide.end()));
  for (int64_t row = 0; row < rows; row++)
    for (int64_t k = 0; k < width; k++)
      x[row * width + k] = widened_one(*place(m->embeddings, tokens[row], k));
  if (m->target) {
    Buffer<float> both(rows * 2 * width);
    for (int64_t row = 0; row < rows; row++) {
      memcpy(both + row * 2 * width, &m->continued[row * width], width * sizeof(float));
      memcpy(both + (row * 2 + 1) * width, x + row * width, width * sizeof(float));
    }
    multiply<float>(m->join, both, x, rows, ALONE);
  }
  Buffer<float> states(rows * width * m->depths.size());
  for (size_t n = 0; n < m->depths.size(); n++)
    m->watched[m->depths[n] - 1] = states + n * rows * width;
  Pass pass{rows,      past,          x,        hidden,           wide.data(),
            m->cos.data(), m->sin.data(), m->keys.data(), m->values.data(), m->capacity,
            straight,  begin,         slots,    m->watched.data(), m->skipped.data()};
  run<float>(m->decoder, pass, ALONE);
  for (int64_t row = 0; m->states && row < rows; row++) {
    float* feature = (float*)m->features + (past + row) * m->states * width;
    memcpy(feature, hidden + row * width, width * sizeof(float));
    for (size_t n = 0; n < m->depths.size(); n++)
      memcpy(feature + (n + 1) * width, states + (n * rows + row) * width, width * sizeof(float));
  }
  if (!count) return nullptr;
  for (int64_t i = 0; i < count; i++)
    memcpy(chosen + i * width, hidden + scored[i] * width, width * sizeof(float));
  auto logits = room<float>(count * m->columns());
  if (logits) multiply<float>(m->output, chosen, logits, count, ALONE);
  return logits;
}

void EXPORT(web_argmax)(const Model* m, const float* logits, int count, int32_t* tokens) {
  for (int i = 0; i < count; i++)
    tokens[i] = m->token(argmax(m->row(logits, i), m->columns()));
}

void EXPORT(web_top)(const Model* m, const float* logits, const int32_t* rows, int count, int k,
                     int32_t* tokens, float* shares) {
  std::vector<int64_t> wide(rows, rows + count);
  Logits some{logits, m->columns(), m->columns(), wide.data(), count};
  top_of<float>(some, k, 0, tokens, shares, ALONE);
  for (int i = 0; i < count * k; i++) tokens[i] = m->token(tokens[i]);
}

float EXPORT(web_logarithm)(const Model* m, const float* logits, int row, int token) {
  int64_t column = m->column(token);
  if (column < 0) return -INFINITY;
  return m->row(logits, row)[column] - log_sum_exp(m->row(logits, row), m->columns());
}

void EXPORT(web_row)(const Model* m, const float* logits, int row, float* out) {
  std::fill(out, out + m->vocabulary, -INFINITY);
  for (int64_t i = 0; i < m->columns(); i++) out[m->token(i)] = m->row(logits, row)[i];
}

int EXPORT(web_draw)(const Model* m, const float* logits, int row, double temperature, int top_k,
                     double top_p, uint64_t seed, uint64_t position, uint64_t turn,
                     uint64_t question, int k, int32_t* tokens) {
  Draw draw{temperature, top_p, top_k, seed, position, turn, question};
  const int32_t* ids = m->ids.empty() ? nullptr : m->ids.data();
  int count =
      draw_columns(m->row(logits, row), m->columns(), ids, m->vocabulary, draw, k, tokens);
  for (int i = 0; i < count; i++) tokens[i] = m->token(tokens[i]);
  return count;
}
}
