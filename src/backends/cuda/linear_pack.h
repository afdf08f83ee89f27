// SPDX-License-Identifier: Apache-2.0
// From GGUF blocks to the planes that kernels read.
#pragma once

#include <array>
#include <cstdint>

#include "flashinfer/gemm.h"
#include "kernels/linear/weight_planes.h"

namespace flashinfer::cuda {

/// Writes rows `begin` to `end` of `source` to memory of PlaneBytes() each.
void PackPlanes(const WeightView& source, int64_t begin, int64_t end,
                const std::array<uint8_t*, kernels::kNumWeightPlanes>& planes);

}  // namespace flashinfer::cuda
