// SPDX-License-Identifier: Apache-2.0
// Look-ups of packed weights' rows: every format and candidate, ids out of range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/checks/gather_rows.h"
#include "support/compare.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class GatherRowsCaseTest : public ::testing::TestWithParam<GatherRowsCase> {};

TEST_P(GatherRowsCaseTest, EveryCandidateDequantisesExactly) {
  ExpectCaseHolds(CheckGatherRows, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, GatherRowsCaseTest, ::testing::ValuesIn(GatherRowsCases()));

TEST(GatherRows, IdsOutOfRangeAreNamedOrGiveNan) {
  std::mt19937_64 rng(14);
  const std::vector<uint8_t> data = RandomWeight(WeightFormat::kQ8_0, 37, 256, rng);
  for (Device device : TestDevices()) {
    const PackedWeight weight({data.data(), WeightFormat::kQ8_0, 37, 256}, {.device = device});
    HostTensor ids(DType::kI32, {4});
    ids.FillWith({36, 0, 37, -1});
    HostTensor out(DType::kF32, {4, 256});
    if (device.type == DeviceType::kCpu) {
      EXPECT_THAT([&] { weight.GatherRows(ids, out); },
                  ThrowsMessage<Error>("ids[2]: is 37, accepted: 0 to 36"));
      ids.Set({2}, -1);
      EXPECT_THAT([&] { weight.GatherRows(ids, out); },
                  ThrowsMessage<Error>("ids[2]: is -1, accepted: 0 to 36"));
      for (double value : out.Values()) EXPECT_TRUE(std::isnan(value));
      continue;
    }
    DeviceCopies on(device);
    weight.GatherRows(on(ids), on(out));
    on.Fetch();
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(out.At({i, 100})), i >= 2);
  }
}

}  // namespace
}  // namespace flashinfer::test
