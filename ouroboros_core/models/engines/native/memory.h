// Memory for a WebAssembly module without a C library.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

extern "C" char __heap_base;

// A piece of memory: 64 bytes with its size, then the memory. Free pieces are in a list by address,
// and two that touch are joined.
struct alignas(64) Piece {
  size_t size;  // of the memory, a multiple of 64
  Piece* next;
  char* end() { return (char*)(this + 1) + size; }
};
static Piece* free_pieces = nullptr;

static void release(Piece* piece) {
  Piece *before = nullptr, *after = free_pieces;
  while (after && after < piece) before = after, after = after->next;
  piece->next = after;
  (before ? before->next : free_pieces) = piece;
  for (Piece* first : {piece, before})
    if (first && first->next && first->end() == (char*)first->next) {
      first->size += sizeof(Piece) + first->next->size;
      first->next = first->next->next;
    }
}

extern "C" {
void* aligned_alloc(size_t, size_t size) {  // always aligned to 64 bytes
  constexpr size_t PAGE = 65536;
  size = (std::max<size_t>(size, 1) + 63) / 64 * 64;
  for (bool grown = false;; grown = true) {
    for (Piece** held = &free_pieces; *held; held = &(*held)->next) {
      Piece* piece = *held;
      if (piece->size < size) continue;
      if (piece->size >= size + 2 * sizeof(Piece)) {  // the rest stays free
        auto rest = (Piece*)((char*)(piece + 1) + size);
        rest->size = piece->size - size - sizeof(Piece), rest->next = piece->next;
        *held = rest;
        piece->size = size;
      } else {
        *held = piece->next;
      }
      return piece + 1;
    }
    static uintptr_t end = 0;  // of the memory that was used before
    if (!end) end = ((uintptr_t)&__heap_base + 63) / 64 * 64;
    uintptr_t there = __builtin_wasm_memory_size(0) * PAGE;
    if (grown || size > SIZE_MAX - 2 * PAGE) return nullptr;
    size_t pages = (size + 2 * sizeof(Piece)) / PAGE + 1;
    if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) return nullptr;
    auto piece = (Piece*)end;
    end = there + pages * PAGE;
    piece->size = end - (uintptr_t)(piece + 1);
    release(piece);
  }
}
void free(void* memory) {
  if (memory) release((Piece*)memory - 1);
}
float nextafterf(float x, float) {  // downwards
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x || x == -INFINITY) return x;
  bits = x == 0 ? (int32_t)0x80000001 : x > 0 ? bits - 1 : bits + 1;
  memcpy(&x, &bits, sizeof x);
  return x;
}
}

static void* needed(size_t size) {
  void* memory = aligned_alloc(64, size);
  if (!memory) __builtin_trap();
  return memory;
}
void* operator new(size_t size) { return needed(size); }
void* operator new[](size_t size) { return needed(size); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
