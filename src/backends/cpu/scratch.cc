// SPDX-License-Identifier: Apache-2.0
// Per-thread scratch memory.
#include "backends/cpu/scratch.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace flashinfer::cpu {
namespace {

struct Free {
  void operator()(void* block) const { std::free(block); }
};

}  // namespace

void* ThreadScratch(size_t bytes) {
  thread_local std::unique_ptr<void, Free> block;
  thread_local size_t capacity = 0;
  if (bytes > capacity) {
    const size_t wanted = (bytes + bytes / 4 + 4095) / 4096 * 4096;
    block.reset();
    capacity = 0;
    block.reset(std::aligned_alloc(64, wanted));
    if (block == nullptr) throw std::bad_alloc();
    capacity = wanted;
  }
  return block.get();
}

}  // namespace flashinfer::cpu
