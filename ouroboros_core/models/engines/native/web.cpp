// The native pass for a browser: models with their caches, and choices from their logits.
// `visualize/live/pass.js` calls these functions and computes logarithms and sines; `build.py`
// compiles them without a C library.
#include "decoder.cpp"
#include "draw.h"
#include "memory.h"

#include <vector>

#define EXPORT(name) __attribute__((export_name(#name))) name

constexpr int64_t GRAIN = 256;  // the capacity of a cache grows in multiples of this many rows
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

// A place of 32 outputs in a matrix of bfloat16 panels; see decoder.cpp.
static bf16* place(const Matrix& w, int64_t output) {
  return (bf16*)w.panels + output / PANEL * w.inner * PANEL + 2 * (output % PANEL);
}

// Returns the bfloat16 panels of a matrix in blocks.
template <class Blocks>
static uint8_t* unpacked(const uint8_t* blocks, int64_t groups) {
  auto panels = room<uint8_t>(groups * sizeof(Unpacked<Blocks>::weights));
  Unpacked<Blocks> group;
  for (int64_t i = 0; panels && i < groups; i++) {
    group.open(group, blocks + i * Blocks::STEP);
    memcpy(panels + i * sizeof group.weights, group.weights, sizeof group.weights);
  }
  return panels;
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
// `Layer`; layer -1 has the embeddings, which are the output matrix too, or at place 1 only that.
// Returns whether there is memory for its panels.
int EXPORT(web_matrix)(Model* m, int layer, int place, int inner, int outer, int kind,
                       uint8_t* data) {
  Matrix w{data, inner, outer, nullptr, BFLOAT16};
  int64_t groups = (int64_t)inner / INPUTS * panels(w);
  if (kind != BFLOAT16) {
    w.panels = kind == Q4_1 ? unpacked<FourBits>(data, groups) : unpacked<EightBits>(data, groups);
    free(data);
  }
  if (layer >= 0) {
    Layer& y = m->layers[layer];
    Matrix* places[] = {&y.qkv, &y.out, &y.gate, &y.up, &y.down};
    *places[place] = w;
  } else {
    if (place == 0) m->embeddings = w;
    m->output = w;
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
      memcpy(place(some, i) + k * PANEL, place(m->output, ids[i]) + k * PANEL, 2 * sizeof(bf16));
  m->output = some;
  m->ids.assign(ids, ids + count);
  return 1;
}

// Makes the cache large enough; returns whether there is memory.
int EXPORT(web_reserve)(Model* m, int rows) {
  if (rows <= m->capacity) return 1;
  int64_t capacity = std::max<int64_t>(rows, 2 * m->capacity), head = m->decoder.head;
  capacity = (capacity + GRAIN - 1) / GRAIN * GRAIN;
  std::vector<float*> larger(2 * m->keys.size());
  for (float*& tensor : larger) {
    tensor = room<float>(m->decoder.shared * capacity * head);
    if (!tensor) {  // the cache stays as it is
      for (float* other : larger) free(other);
      return 0;
    }
  }
  auto next = larger.begin();
  for (auto* tensors : {&m->keys, &m->values})
    for (void*& held : *tensors) {
      for (int64_t h = 0; held && h < m->decoder.shared; h++)
        memcpy(*next + h * capacity * head, (float*)held + h * m->capacity * head,
               m->capacity * head * sizeof(float));
      free(held);
      held = *next++;
    }
  m->capacity = capacity;
  return 1;
}

void EXPORT(web_keep)(Model* m, int start, const int32_t* rows, int count) {
  std::vector<Rows> tensors;
  for (auto* held : {&m->keys, &m->values})
    for (void* memory : *held)
      if (memory)
        tensors.push_back({(char*)memory, m->decoder.shared,
                           m->decoder.head * (int64_t)sizeof(float)});
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
  for (int64_t row = 0; row < rows; row++) {
    const bf16* weights = place(m->embeddings, tokens[row]);
    for (int64_t k = 0; k < width; k++)
      x[row * width + k] = widened_one(weights[k / 2 * 2 * PANEL + k % 2]);
  }
  Pass pass{rows,      past,          x,        hidden,           wide.data(),
            m->cos.data(), m->sin.data(), m->keys.data(), m->values.data(), m->capacity,
            straight,  begin,         slots,    m->watched.data(), m->skipped.data()};
  run<float>(m->decoder, pass, ALONE);
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
