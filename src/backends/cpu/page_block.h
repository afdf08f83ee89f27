// SPDX-License-Identifier: Apache-2.0
// Long-lived memory in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace flashinfer::cpu {

/// Memory that is read front to back; its contents are arbitrary at first. Blocks made one after
/// the other share 2 MiB pages, where the system has them, so that small ones get them too; the
/// system takes memory back, but for 8 MiB, when the last block of a piece of 64 MiB is gone.
class PageBlock {
 public:
  /// Throws Error(kDevice) when there is no memory.
  explicit PageBlock(size_t bytes);
  ~PageBlock();
  PageBlock(const PageBlock&) = delete;
  PageBlock& operator=(const PageBlock&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<void> piece_;
  uint8_t* data_;
  size_t size_;
};

}  // namespace flashinfer::cpu
