// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how the copy engine of SM90 finds boxes of a tensor in device memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_map.h"
#include "flashinfer/tensor.h"

namespace flashinfer::cuda {

/// CUtensorMapSwizzle: the span that tile::Swizzle permutes.
enum class TensorMapSwizzle : int { kNone = 0, k32B = 1, k64B = 2, k128B = 3 };

/// All of 1 to 5 dimensions, innermost first.
struct TensorMapShape {
  Device device{DeviceType::kCuda, 0};
  DType dtype = DType::kBF16;
  const void* data = nullptr;        ///< in device memory, aligned to 16 bytes
  std::span<const int64_t> sizes;    ///< elements
  std::span<const int64_t> strides;  ///< elements, of all dimensions but the first, which is 1
  std::span<const int32_t> box;      ///< elements that one copy takes, each 1 to 256
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;  ///< of lines of box[0] elements
};

/// Throws kInvalidArgument naming what the copy engine does not accept.
TensorMap EncodeTensorMap(const TensorMapShape& shape);

}  // namespace flashinfer::cuda
