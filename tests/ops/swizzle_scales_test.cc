// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales: against the header's formulas, and errors.
#include "ops/swizzle_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checks/swizzle_scales.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class SwizzleScalesTest : public ::testing::TestWithParam<SwizzleScalesCase> {};

TEST_P(SwizzleScalesTest, EveryCandidateMatchesTheFormulas) {
  ExpectCaseHolds(CheckSwizzleScales, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, SwizzleScalesTest, ::testing::ValuesIn(SwizzleScalesCases()));

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
