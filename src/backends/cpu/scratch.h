// SPDX-License-Identifier: Apache-2.0
// Memory that a calling thread keeps for the inside of operators without a plan.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashinfer::cpu {

/// At least `bytes` bytes, aligned to 64, the calling thread's until its next call. Grows and is
/// kept until the thread ends, so that repeated calls allocate nothing.
void* ThreadScratch(size_t bytes);

/// Cuts a block into aligned arrays; with a null block it only counts.
class ScratchCursor {
 public:
  explicit ScratchCursor(void* block) : block_(static_cast<char*>(block)) {}
  template <class T>
  T* Take(int64_t count) {
    char* at = block_ == nullptr ? nullptr : block_ + used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  char* block_;
  size_t used_ = 0;
};

}  // namespace flashinfer::cpu
