// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks on the CPU: what it takes, padding, and how rows are shared.
#include "backends/cpu/quantize_blocks.h"

#include <algorithm>

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves (2 µs against 0.3 ns each).
constexpr int64_t kElementsPerGrain = 8192;

}  // namespace

bool AcceptsQuantizeBlocks(const QuantizeBlocksProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF16 &&
      problem.dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  return true;
}

void ClearScalePadding(const QuantizeBlocksParams& p) {
  const int64_t num_blocks = p.padded_size / ElementsPerBlock(p.format);
  const int64_t padded_rows = PaddedScaleRows(p.scale_layout, p.num_rows);
  const int64_t padded_blocks = PaddedScaleBlocks(p.scale_layout, num_blocks);
  for (int64_t row = 0; row < padded_rows; ++row) {
    for (int64_t block = row < p.num_rows ? num_blocks : 0; block < padded_blocks; ++block) {
      p.scales[ScaleOffset(p.scale_layout, row, block, padded_blocks)] = 0;
    }
  }
}

int64_t BlockRowsGrain(const QuantizeBlocksParams& params) {
  return std::max<int64_t>(1, kElementsPerGrain / std::max<int64_t>(1, params.padded_size));
}

}  // namespace flashinfer::cpu
