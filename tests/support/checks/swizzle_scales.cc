// SPDX-License-Identifier: Apache-2.0
// Block scales against the formulas of their layouts.
#include "support/checks/swizzle_scales.h"

#include <random>
#include <vector>

#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

int64_t OffsetOf(ScaleLayout layout, int64_t m, int64_t k, int64_t num_blocks) {
  const int64_t tiles = (num_blocks + 3) / 4;
  if (layout == ScaleLayout::kLinear) return m * num_blocks + k;
  if (layout == ScaleLayout::k8x4) return (m / 8 * tiles + k / 4) * 32 + m % 8 * 4 + k % 4;
  return (m / 128 * tiles + k / 4) * 512 + m % 32 * 16 + m % 128 / 32 * 4 + k % 4;
}

}  // namespace

void CheckSwizzleScales(const SwizzleScalesCase& c, CaseRun& run) {
  std::mt19937_64 rng(29);
  HostTensor linear(DType::kU8, {c.num_rows, c.num_blocks}, {c.num_blocks + 3, 1});
  linear.FillUniform(rng, 1, 255);
  const int64_t num_bytes = BlockScaleBytes(c.layout, c.num_rows, c.num_blocks);
  std::vector<double> expected(static_cast<size_t>(num_bytes), 0.0);
  for (int64_t m = 0; m < c.num_rows; ++m) {
    for (int64_t k = 0; k < c.num_blocks; ++k) {
      expected[static_cast<size_t>(OffsetOf(c.layout, m, k, c.num_blocks))] = linear.At({m, k});
    }
  }
  run.ForEachCandidate<SwizzleScalesOp>({c.layout, 0}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor swizzled(DType::kU8, {num_bytes});
    SwizzleBlockScales(on(linear), on(swizzled), c.layout, trial.backend());
    on.Fetch();
    trial.Expect("swizzled", Mismatch(swizzled, expected, {0, 0}));
  });
}

}  // namespace flashinfer::test
