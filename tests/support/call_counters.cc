// SPDX-License-Identifier: Apache-2.0
// The replacements, and their counters.
#include "support/call_counters.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "jit/store.h"

// The compiler does not know that the operators below belong together.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {

std::atomic<int64_t> num_allocations{0};
std::atomic<int64_t> num_environment_reads{0};
std::atomic<int64_t> num_library_locks{0};

/// The function that a replacement hides. Not a local static: its guard would lock.
template <class Function>
Function* Original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool IsInLibrary(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libflashinfer") != nullptr;
}

}  // namespace

void* operator new(std::size_t size) {
  ++num_allocations;
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++num_allocations;
  const auto to = static_cast<std::size_t>(alignment);
  void* block = std::aligned_alloc(to, (size + to - 1) / to * to);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

extern "C" {

__attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  static auto* const original = Original<char*(const char*)>("getenv");
  ++num_environment_reads;
  return original(name);
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static std::atomic<int (*)(pthread_mutex_t*)> original{nullptr};
  auto* lock = original.load(std::memory_order_relaxed);
  if (lock == nullptr) {
    lock = Original<int(pthread_mutex_t*)>("pthread_mutex_lock");
    original.store(lock, std::memory_order_relaxed);
  }
  if (IsInLibrary(__builtin_return_address(0))) ++num_library_locks;
  return lock(mutex);
}

}  // extern "C"

namespace flashinfer::test {

CallCounts CountedCalls() {
  const int64_t kernel_fetches = jit::NumFetches();  // may make the store, which allocates
  return {.allocations = num_allocations,
          .environment_reads = num_environment_reads,
          .library_locks = num_library_locks,
          .kernel_fetches = kernel_fetches};
}

}  // namespace flashinfer::test
