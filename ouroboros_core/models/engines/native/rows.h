// Moves of rows in a cache.
#pragma once
#include <cstdint>
#include <cstring>

struct Rows {  // [heads][capacity] rows of `bytes` bytes
  char* first;
  int64_t heads, bytes;
};

extern "C" {
// Moves rows of each of `count` tensors to `start` and after it. The rows are ascending, and none
// is before `start`.
void ouroboros_keep(const Rows* tensors, int64_t count, int64_t capacity, int64_t start,
                    const int64_t* rows, int64_t kept) {
  for (int64_t n = 0; n < count; n++)
    for (int64_t head = 0; head < tensors[n].heads; head++) {
      int64_t bytes = tensors[n].bytes;
      char* first = tensors[n].first + head * capacity * bytes;
      for (int64_t i = 0; i < kept; i++)
        if (rows[i] != start + i) memcpy(first + (start + i) * bytes, first + rows[i] * bytes, bytes);
    }
}
}
