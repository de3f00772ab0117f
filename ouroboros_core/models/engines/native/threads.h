// Work shared by several threads.
#pragma once
#include <atomic>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct Threads {  // functions of torch's OpenMP, so that there is one pool of threads
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
  int (*index)();
  int (*count)();
  int64_t wanted;
};

constexpr int SPINS = 4000;  // about 50 microseconds, the time of a piece of work

class Team {
 public:
  Team(int counters) : next(counters ? new std::atomic<int>[counters]() : nullptr) {}
  ~Team() { delete[] next; }
  void wait() {  // until all threads have arrived
    if (size == 1) return;
#if !defined(__wasm__)
    int turn = phase.load(std::memory_order_acquire);
    if (arrived.fetch_add(1) + 1 == size) {
      arrived.store(0);
      phase.store(turn + 1, std::memory_order_release);
      phase.notify_all();
      return;
    }
    for (int spins = 0; spins < SPINS && phase.load(std::memory_order_acquire) == turn; spins++) {
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
    phase.wait(turn, std::memory_order_acquire);  // another process needs the processor: sleep
#endif
  }
  // A free thread takes the next of `count` pieces of work.
  template <class Work>
  void share(int counter, int count, Work work) {
    for (int i; (i = next[counter].fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
    wait();
  }
  std::atomic<int> size{1};

 private:
  std::atomic<int>* next;
  std::atomic<int> arrived{0}, phase{0};
};

template <class Work>
struct Region {
  Work& work;
  Team& team;
  const Threads& threads;
  static void enter(void* data) {
    auto& region = *(Region*)data;
    region.team.size = region.threads.count();
    region.work(region.threads.index());
  }
};

// Calls work(thread) in each thread; there may be fewer threads than `wanted`.
template <class Work>
static void together(const Threads& threads, Team& team, Work work) {
  if (threads.wanted <= 1 || !threads.parallel) return work(0);
  Region<Work> region{work, team, threads};
  threads.parallel(Region<Work>::enter, &region, (unsigned)threads.wanted, 0);
}
