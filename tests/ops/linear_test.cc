// SPDX-License-Identifier: Apache-2.0
// Linear layers: every format and candidate against a float64 product of dequantised weights.
#include "ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/cases/linear.h"
#include "support/checks/linear.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/gguf_blocks.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LinearCaseTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckLinear, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, LinearCaseTest, ::testing::ValuesIn(LinearCases()));

/// out = x · Wᵀ on the weight's device.
HostTensor Multiply(const HostTensor& x, const PackedWeight& weight) {
  HostTensor out(DType::kF32, {x.view().shape(0), weight.rows()});
  DeviceCopies on(weight.device());
  Linear(on(x), weight, on(out));
  on.Fetch();
  return out;
}

class LinearOnDeviceTest : public ::testing::TestWithParam<Device> {};

TEST_P(LinearOnDeviceTest, SourcesPackedTogetherFollowEachOtherInTheOutput) {
  std::mt19937_64 rng(12);
  const std::vector<uint8_t> a = RandomWeight(WeightFormat::kQ4_1, 20, 256, rng);
  const std::vector<uint8_t> b = RandomWeight(WeightFormat::kBF16, 7, 256, rng);
  const std::vector<uint8_t> c = RandomWeight(WeightFormat::kQ6_K, 33, 256, rng);
  const std::vector<uint8_t> d = RandomWeight(WeightFormat::kQ6_K, 18, 256, rng);
  const WeightView sources[] = {{a.data(), WeightFormat::kQ4_1, 20, 256},
                                {b.data(), WeightFormat::kBF16, 7, 256},
                                {c.data(), WeightFormat::kQ6_K, 33, 256},
                                {d.data(), WeightFormat::kQ6_K, 18, 256}};
  HostTensor x(DType::kF32, {5, 256});
  x.FillNormal(rng);
  std::vector<const void*> released;
  const PackedWeight together(
      sources, {.device = GetParam(),
                .packed =
                    [](void* context, const WeightView& source) {
                      static_cast<std::vector<const void*>*>(context)->push_back(source.data);
                    },
                .context = &released});
  EXPECT_EQ(released, (std::vector<const void*>{a.data(), b.data(), c.data(), d.data()}));
  ASSERT_EQ(together.rows(), 78);
  const HostTensor out = Multiply(x, together);
  int64_t first = 0;
  for (const WeightView& source : sources) {
    const HostTensor alone = Multiply(x, PackedWeight(source, {.device = GetParam()}));
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < source.rows; ++r) {
        EXPECT_EQ(out.At({t, first + r}), alone.At({t, r}));
      }
    }
    first += source.rows;
  }
  HostTensor ids(DType::kI32, {5});
  ids.FillWith({77, 59, 20, 19, 60});
  HostTensor rows(DType::kF32, {5, 256});
  DeviceCopies on(GetParam());
  together.GatherRows(on(ids), on(rows));
  on.Fetch();
  std::vector<double> expected;
  for (const auto& [source, row] : {std::pair{3, 17}, {2, 32}, {1, 0}, {0, 19}, {3, 0}}) {
    const std::vector<double> all = Dequantize(sources[source]);
    expected.insert(expected.end(), all.begin() + row * 256, all.begin() + (row + 1) * 256);
  }
  EXPECT_TRUE(AllNear(rows, expected, {1e-6, 2e-7}));
}

TEST_P(LinearOnDeviceTest, ATokenThatIsNotFiniteStaysAlone) {
  std::mt19937_64 rng(13);
  for (WeightFormat format : kWeightFormats) {
    SCOPED_TRACE(Name(format));
    const std::vector<uint8_t> data = RandomWeight(format, 40, 256, rng);
    const PackedWeight weight({data.data(), format, 40, 256}, {.device = GetParam()});
    HostTensor x(DType::kF32, {9, 256});
    x.FillNormal(rng);
    const HostTensor clean = Multiply(x, weight);
    x.Set({4, 3}, std::nan(""));
    x.Set({6, 60}, HUGE_VAL);
    const HostTensor out = Multiply(x, weight);
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

TEST_P(LinearOnDeviceTest, TinyActivationsRoundToNumbers) {
  std::mt19937_64 rng(16);
  const std::vector<uint8_t> data = RandomWeight(WeightFormat::kQ4_0, 8, 64, rng);
  const PackedWeight weight({data.data(), WeightFormat::kQ4_0, 8, 64}, {.device = GetParam()});
  HostTensor x(DType::kF32, {2, 64});
  x.Fill(1e-44);
  const HostTensor out = Multiply(x, weight);
  for (double value : out.Values()) EXPECT_LE(std::abs(value), 1e-36);
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearOnDeviceTest, ::testing::ValuesIn(TestDevices()));
// Without a device of the asked kind there is nothing to run.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinearOnDeviceTest);

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
