// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on the CPU.
#include "backends/cpu/swizzle_scales.h"

#include <algorithm>

#include "backends/cpu/thread_pool.h"

namespace flashinfer::cpu {
namespace {

/// Scales below which waking another thread costs more than it saves (2 µs against 1 ns each).
constexpr int64_t kScalesPerGrain = 4096;

}  // namespace

bool AcceptsSwizzleScales(const SwizzleScalesProblem& problem, std::string* why) {
  return problem.arch == 0 || Refuse(why, "tensors are on a CUDA device");
}

void RunSwizzleScales(const SwizzleScalesParams& p) {
  const int64_t padded_blocks = PaddedScaleBlocks(p.layout, p.num_blocks);
  const int64_t grain = std::max<int64_t>(1, kScalesPerGrain / std::max<int64_t>(1, padded_blocks));
  ParallelFor(PaddedScaleRows(p.layout, p.num_rows), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* in = p.linear + row * p.linear_stride;
      const int64_t num_blocks = row < p.num_rows ? p.num_blocks : 0;
      for (int64_t block = 0; block < padded_blocks; ++block) {
        p.swizzled[ScaleOffset(p.layout, row, block, padded_blocks)] =
            block < num_blocks ? in[block] : uint8_t{0};
      }
    }
  });
}

}  // namespace flashinfer::cpu
