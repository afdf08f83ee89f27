// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales: against the header's formulas, and errors.
#include "ops/swizzle_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/candidates.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

int64_t OffsetOf(ScaleLayout layout, int64_t m, int64_t k, int64_t num_blocks) {
  const int64_t tiles = (num_blocks + 3) / 4;
  if (layout == ScaleLayout::kLinear) return m * num_blocks + k;
  if (layout == ScaleLayout::k8x4) return (m / 8 * tiles + k / 4) * 32 + m % 8 * 4 + k % 4;
  return (m / 128 * tiles + k / 4) * 512 + m % 32 * 16 + m % 128 / 32 * 4 + k % 4;
}

class SwizzleScalesTest : public ::testing::TestWithParam<ScaleLayout> {};

TEST_P(SwizzleScalesTest, EveryCandidateMatchesTheFormulas) {
  const ScaleLayout layout = GetParam();
  std::mt19937_64 rng(29);
  for (int64_t num_rows : {0, 1, 7, 128, 300}) {
    for (int64_t num_blocks : {1, 4, 6, 129}) {
      HostTensor linear(DType::kU8, {num_rows, num_blocks}, {num_blocks + 3, 1});
      linear.FillUniform(rng, 1, 255);
      const int64_t num_bytes = BlockScaleBytes(layout, num_rows, num_blocks);
      std::vector<double> expected(static_cast<size_t>(num_bytes), 0.0);
      for (int64_t m = 0; m < num_rows; ++m) {
        for (int64_t k = 0; k < num_blocks; ++k) {
          expected[static_cast<size_t>(OffsetOf(layout, m, k, num_blocks))] = linear.At({m, k});
        }
      }
      for (const std::string& candidate : AcceptingCandidates<SwizzleScalesOp>({layout, 0})) {
        HostTensor swizzled(DType::kU8, {num_bytes});
        SwizzleBlockScales(linear, swizzled, layout, Backend(candidate));
        EXPECT_TRUE(AllNear(swizzled, expected, {0, 0})) << num_rows << " x " << num_blocks;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SwizzleScalesTest,
                         ::testing::Values(ScaleLayout::kLinear, ScaleLayout::k128x4,
                                           ScaleLayout::k8x4));

TEST(SwizzleBlockScales, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor linear(DType::kE8M0, {3, 5});
  HostTensor swizzled(DType::kE8M0, {15});
  HostTensor floats(DType::kF32, {3, 5});
  EXPECT_THAT([&] { SwizzleBlockScales(floats, swizzled); },
              ThrowsMessage<Error>("linear: dtype is f32, accepted: e8m0, e4m3, u8"));
  EXPECT_THAT([&] { SwizzleBlockScales(linear, swizzled); },
              ThrowsMessage<Error>("swizzled: shape is [15], expected [1024]"));
}

}  // namespace
}  // namespace flashinfer::test
