// SPDX-License-Identifier: Apache-2.0
// Packing of bits: every candidate against a loop over bits, and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flashinfer/quantize.h"
#include "ops/packbits.h"
#include "support/candidates.h"
#include "support/cases/packbits.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

/// Of values[begin, end).
std::vector<double> Packed(const std::vector<double>& values, size_t begin, size_t end,
                           bool little) {
  std::vector<double> bytes((end - begin + 7) / 8, 0);
  for (size_t i = begin; i < end; ++i) {
    const size_t at = i - begin;
    const size_t bit = little ? at % 8 : 7 - at % 8;
    if (values[i] != 0) bytes[at / 8] += static_cast<double>(1u << bit);
  }
  return bytes;
}

HostTensor RandomTruths(DType dtype, int64_t size, std::mt19937_64& rng) {
  HostTensor x(dtype, {size});
  std::uniform_int_distribution<int> value(0, dtype == DType::kBool ? 1 : 255);
  for (int64_t i = 0; i < size; ++i) x.Set({i}, rng() % 2 == 0 ? 0 : value(rng));
  return x;
}

class PackBitsCaseTest : public ::testing::TestWithParam<PackBitsCase> {};

TEST_P(PackBitsCaseTest, EveryCandidateMatchesTheOracle) {
  const PackBitsCase& c = GetParam();
  std::mt19937_64 rng(17);
  std::vector<int64_t> begins{0};
  for (int64_t i = 0; i < std::max<int64_t>(1, c.num_segments); ++i) {
    const bool is_random = c.num_segments > 0;
    begins.push_back(
        begins.back() +
        (is_random ? static_cast<int64_t>(rng() % static_cast<uint64_t>(c.size + 1)) : c.size));
  }
  const HostTensor x = RandomTruths(c.dtype, begins.back(), rng);
  const std::vector<double> values = x.Values();
  std::vector<double> expected;
  std::vector<double> expected_indptr{0};
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const auto bytes = Packed(values, static_cast<size_t>(begins[i]),
                              static_cast<size_t>(begins[i + 1]), c.little);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    expected_indptr.push_back(static_cast<double>(expected.size()));
  }
  HostTensor indptr(DType::kI32, {static_cast<int64_t>(begins.size())});
  for (size_t i = 0; i < begins.size(); ++i) {
    indptr.Set({static_cast<int64_t>(i)}, static_cast<double>(begins[i]));
  }
  const BitOrder order = c.little ? BitOrder::kLittle : BitOrder::kBig;
  for (const std::string& candidate : AcceptingCandidates<PackBitsOp>(ProblemOf(c))) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor packed(DType::kU8, {static_cast<int64_t>(expected.size())});
    if (c.num_segments == 0) {
      PackBits(x, packed, order, Backend(candidate));
    } else {
      HostTensor packed_indptr(DType::kI32, indptr.view().shape());
      EXPECT_EQ(SegmentPackBitsBytes(indptr), static_cast<int64_t>(expected.size()));
      SegmentPackBits(x, {indptr, packed_indptr}, packed, order, Backend(candidate));
      EXPECT_TRUE(AllNear(packed_indptr, expected_indptr, {0, 0}));
    }
    EXPECT_TRUE(AllNear(packed, expected, {0, 0}));
  }
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
