// SPDX-License-Identifier: Apache-2.0
// Packing of bits: every candidate against a loop over bits, and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flashinfer/quantize.h"
#include "ops/packbits.h"
#include "support/cases/packbits.h"
#include "support/checks/packbits.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class PackBitsCaseTest : public ::testing::TestWithParam<PackBitsCase> {};

TEST_P(PackBitsCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckPackBits, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, PackBitsCaseTest, ::testing::ValuesIn(PackBitsCases()));

TEST(PackBits, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kBool, {9});
  HostTensor floats(DType::kF32, {9});
  HostTensor packed(DType::kU8, {1});
  EXPECT_THAT([&] { PackBits(floats, packed); },
              ThrowsMessage<Error>("x: dtype is f32, accepted: bool, u8"));
  EXPECT_THAT([&] { PackBits(x, packed); },
              ThrowsMessage<Error>("packed: shape is [1], expected [2]"));
  HostTensor indptr(DType::kI32, {3});
  HostTensor packed_indptr(DType::kI32, {3});
  indptr.FillWith({0, 4, 8});
  EXPECT_THAT(
      [&] {
        SegmentPackBits(x, {indptr, packed_indptr}, packed);
      },
      ThrowsMessage<Error>("indptr: ends at 8, x has 9 elements"));
  indptr.FillWith({0, 4, 9});
  EXPECT_THAT(
      [&] {
        SegmentPackBits(x, {indptr, packed_indptr}, packed);
      },
      ThrowsMessage<Error>("packed: has 1 bytes, expected 2 or more"));
  indptr.FillWith({0, 10, 9});
  EXPECT_THROW(SegmentPackBits(x, {indptr, packed_indptr}, packed), Error);
}

}  // namespace
}  // namespace flashinfer::test
