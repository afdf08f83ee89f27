// SPDX-License-Identifier: Apache-2.0
// Linear layers: every format and candidate against a float64 product of dequantised weights.
#include "ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/cases/linear.h"
#include "support/checks/linear.h"
#include "support/compare.h"
#include "support/gguf_blocks.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LinearCaseTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckLinear, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, LinearCaseTest, ::testing::ValuesIn(LinearCases()));

TEST(Linear, SourcesPackedTogetherFollowEachOtherInTheOutput) {
  std::mt19937_64 rng(12);
  const std::vector<uint8_t> a = RandomWeight(WeightFormat::kQ4_1, 20, 256, rng);
  const std::vector<uint8_t> b = RandomWeight(WeightFormat::kBF16, 7, 256, rng);
  const std::vector<uint8_t> c = RandomWeight(WeightFormat::kQ6_K, 33, 256, rng);
  const WeightView sources[] = {{a.data(), WeightFormat::kQ4_1, 20, 256},
                                {b.data(), WeightFormat::kBF16, 7, 256},
                                {c.data(), WeightFormat::kQ6_K, 33, 256}};
  HostTensor x(DType::kF32, {5, 256});
  x.FillNormal(rng);
  std::vector<const void*> released;
  const PackedWeight together(
      sources, Backend(),
      [](void* context, const WeightView& source) {
        static_cast<std::vector<const void*>*>(context)->push_back(source.data);
      },
      &released);
  EXPECT_EQ(released, (std::vector<const void*>{a.data(), b.data(), c.data()}));
  ASSERT_EQ(together.rows(), 60);
  HostTensor out(DType::kF32, {5, 60});
  Linear(x, together, out);
  int64_t first = 0;
  for (const WeightView& source : sources) {
    HostTensor alone(DType::kF32, {5, source.rows});
    Linear(x, PackedWeight(source), alone);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < source.rows; ++r) {
        EXPECT_EQ(out.At({t, first + r}), alone.At({t, r}));
      }
    }
    first += source.rows;
  }
}

TEST(Linear, ATokenThatIsNotFiniteStaysAlone) {
  std::mt19937_64 rng(13);
  for (WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kF32, WeightFormat::kBF16}) {
    const std::vector<uint8_t> data = RandomWeight(format, 40, 64, rng);
    const PackedWeight weight({data.data(), format, 40, 64});
    HostTensor x(DType::kF32, {9, 64});
    x.FillNormal(rng);
    HostTensor clean(DType::kF32, {9, 40});
    Linear(x, weight, clean);
    x.Set({4, 3}, std::nan(""));
    x.Set({6, 60}, HUGE_VAL);
    HostTensor out(DType::kF32, {9, 40});
    Linear(x, weight, out);
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t r = 0; r < 40; ++r) {
        if (t == 4 || t == 6) {
          EXPECT_FALSE(std::isfinite(out.At({t, r})));
        } else {
          EXPECT_EQ(out.At({t, r}), clean.At({t, r}));
        }
      }
    }
  }
}

TEST(Linear, GatherRowsDequantisesExactly) {
  std::mt19937_64 rng(14);
  for (WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kQ4_0,
        WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K,
        WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ5_K, WeightFormat::kMXFP4}) {
    SCOPED_TRACE(Name(format));
    const std::vector<uint8_t> data = RandomWeight(format, 37, 256, rng);
    const WeightView view{data.data(), format, 37, 256};
    const PackedWeight weight(view);
    HostTensor ids(DType::kI32, {4});
    ids.FillWith({36, 0, 17, 36});
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      HostTensor out(dtype, {4, 256}, {260, 1});
      weight.GatherRows(ids, out);
      const std::vector<double> all = Dequantize(view);
      std::vector<double> expected;
      for (int64_t row : {36, 0, 17, 36}) {
        expected.insert(expected.end(), all.begin() + row * 256, all.begin() + (row + 1) * 256);
      }
      EXPECT_TRUE(AllNear(out, expected, {1e-6, dtype == DType::kF32 ? 2e-7 : 4e-3}));
    }
    ids.Set({2}, 37);
    HostTensor out(DType::kF32, {4, 256});
    EXPECT_THAT([&] { weight.GatherRows(ids, out); },
                ThrowsMessage<Error>("ids[2]: is 37, accepted: 0 to 36"));
  }
}

TEST(Linear, ErrorsNameArgumentValueAndWhatIsAccepted) {
  std::mt19937_64 rng(15);
  const std::vector<uint8_t> data = RandomWeight(WeightFormat::kQ4_1, 4, 64, rng);
  const PackedWeight weight({data.data(), WeightFormat::kQ4_1, 4, 64});
  HostTensor x(DType::kF32, {2, 32});
  HostTensor out(DType::kF32, {2, 4});
  EXPECT_THAT([&] { Linear(x, weight, out); },
              ThrowsMessage<Error>("x: shape is [2, 32], expected [any, 64]"));
  EXPECT_THAT([&] { Linear(x, PackedWeight(), out); },
              ThrowsMessage<Error>("weight: nothing was packed into it"));
  EXPECT_THAT(
      [&] {
        PackedWeight({data.data(), WeightFormat::kQ4_K, 4, 64});
      },
      ThrowsMessage<Error>(HasSubstr("64 columns of q4_k are not a multiple of the block")));
  EXPECT_THAT(
      [&] {
        PackedWeight({nullptr, WeightFormat::kQ4_1, 4, 64});
      },
      ThrowsMessage<Error>("sources[0]: the data pointer is null"));
}

}  // namespace
}  // namespace flashinfer::test
