// SPDX-License-Identifier: Apache-2.0
// What every executor on CUDA devices asks of its problem and its tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "dispatch/candidate.h"
#include "flashinfer/tensor.h"

namespace flashinfer::cuda {

/// Whether the tensors are on a CUDA device of compute capability `min_arch` or later.
inline bool IsOnArch(int32_t arch, int32_t min_arch, std::string* why) {
  if (arch == 0) return Refuse(why, "tensors are in host memory");
  if (arch >= min_arch) return true;
  return why != nullptr &&
         Refuse(why, "needs SM" + std::to_string(min_arch) + ", this is SM" + std::to_string(arch));
}

inline bool IsFloat(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }
inline bool IsFp8(DType t) { return t == DType::kE4M3 || t == DType::kE5M2; }

/// Elements that may be loaded together, at most `limit`: a power of two that divides the pointers
/// and strides which are added to it.
class VectorSize {
 public:
  explicit constexpr VectorSize(int32_t limit) : bits_(static_cast<uint64_t>(limit)) {}
  VectorSize& Pointer(const void* data, DType dtype) {
    bits_ |= reinterpret_cast<uintptr_t>(data) / static_cast<uint64_t>(SizeBytes(dtype));
    return *this;
  }
  VectorSize& Count(int64_t elements) {
    bits_ |= static_cast<uint64_t>(elements);
    return *this;
  }
  int32_t value() const { return static_cast<int32_t>(bits_ & (~bits_ + 1)); }

 private:
  uint64_t bits_;  // the lowest one set is the answer
};

}  // namespace flashinfer::cuda
