// SPDX-License-Identifier: Apache-2.0
// Worker threads: they spin for a moment between regions, then sleep.
#include "backends/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/env.h"
#include "flashinfer/cpu.h"

namespace flashinfer {
namespace cpu {
namespace {

constexpr int kMaxThreads = 256;
/// Pauses before a waiting thread sleeps: about 50 µs, longer than the serial parts between two
/// operators of a model step, short enough that an idle process takes no CPU time.
constexpr int kSpins = 2000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until `value` differs from `old`.
template <class T>
void AwaitChange(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

class Pool {
 public:
  explicit Pool(int num_threads) : num_threads_(num_threads) {
    for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { Work(i); });
  }
  ~Pool() {
    Open(nullptr, nullptr);
    for (std::thread& worker : workers_) worker.join();
  }
  int num_threads() const { return num_threads_; }

  void Run(LaneFunction function, void* context) {
    Open(function, context);
    function(context, {0, num_threads_});
    uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
    for (; inside != kClosed; inside = inside_.load(std::memory_order_acquire)) {
      AwaitChange(inside_, inside);
    }
  }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  void Open(LaneFunction function, void* context) {
    function_ = function;
    context_ = context;
    inside_.store(0, std::memory_order_release);
    region_.fetch_add(1, std::memory_order_release);
    region_.notify_all();
  }

  /// A worker that gets no core before the caller is done stays out: nobody waits for it.
  bool Enter() {
    uint32_t inside = inside_.load(std::memory_order_acquire);
    while ((inside & kClosed) == 0) {
      if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  void Work(int index) {
    for (uint32_t seen = 0;;) {
      AwaitChange(region_, seen);
      seen = region_.load(std::memory_order_acquire);
      if (!Enter()) continue;  // else in this region, or in a later one and then perhaps twice
      if (function_ == nullptr) return;
      function_(context_, {index, num_threads_});
      if (inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) inside_.notify_one();
    }
  }

  const int num_threads_;
  LaneFunction function_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> region_{0};        // wraps after a day of small operators
  alignas(64) std::atomic<uint32_t> inside_{kClosed};  // workers in the region
  std::vector<std::thread> workers_;
};

struct PoolSlot {
  std::mutex mutex;
  std::unique_ptr<Pool> pool;
  std::atomic<int> num_threads{0};  // 0: not yet decided; written under the mutex
};

/// Never destroyed: operators may run in other static destructors.
PoolSlot* slot = nullptr;

/// After fork() the child has none of the threads, and the mutex may be held by one of them.
void ReplaceSlotAfterFork() {
  const int num_threads = slot->num_threads;
  slot = new PoolSlot;
  slot->num_threads.store(num_threads);
}

PoolSlot& GetSlot() {
  static const bool made = [] {
    slot = new PoolSlot;
    pthread_atfork(nullptr, nullptr, ReplaceSlotAfterFork);
    return true;
  }();
  (void)made;
  return *slot;
}

int DefaultNumThreads() {
  const int from_env = GetEnv().num_threads;
  if (from_env >= 1) return std::min(from_env, kMaxThreads);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return 1;
}

int NumThreadsLocked(PoolSlot& s) {
  if (s.num_threads == 0) s.num_threads = DefaultNumThreads();
  return s.num_threads;
}

thread_local bool inside_region = false;

}  // namespace

void RunLanes(LaneFunction function, void* context) {
  PoolSlot& s = GetSlot();
  if (!inside_region) {
    const std::unique_lock lock(s.mutex, std::try_to_lock);
    if (lock.owns_lock() && NumThreadsLocked(s) > 1) {
      if (s.pool == nullptr) s.pool = std::make_unique<Pool>(s.num_threads);
      inside_region = true;
      s.pool->Run(function, context);
      inside_region = false;
      return;
    }
  }
  function(context, {0, 1});
}

}  // namespace cpu

void SetNumThreads(int num_threads) {
  FLASHINFER_CHECK(num_threads >= 1 && num_threads <= cpu::kMaxThreads,
                   "num_threads: is {}, accepted: 1 to {}", num_threads, cpu::kMaxThreads);
  cpu::PoolSlot& s = cpu::GetSlot();
  const std::lock_guard lock(s.mutex);
  if (s.num_threads == num_threads) return;
  s.pool.reset();
  s.num_threads = num_threads;
}

int NumThreads() {
  cpu::PoolSlot& s = cpu::GetSlot();
  const int num_threads = s.num_threads.load(std::memory_order_relaxed);
  // Without the mutex: whoever runs a region holds it for as long as that takes.
  return num_threads != 0 ? num_threads : cpu::DefaultNumThreads();
}

}  // namespace flashinfer
