// SPDX-License-Identifier: Apache-2.0
// Top-k selection: every candidate against a stable sort; ties, infinities, NaN, errors.
#include "ops/topk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "support/cases/topk.h"
#include "support/checks/topk.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class TopKCaseTest : public ::testing::TestWithParam<TopKCase> {};

TEST_P(TopKCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckTopK, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, TopKCaseTest, ::testing::ValuesIn(TopKCases()));

TEST(TopK, ThousandTiesOfALongRow) {
  HostTensor input(DType::kBF16, {4, 65536});
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < 65536; ++i) input.Set({row, i}, static_cast<double>(i % 64) / 64);
  }
  for (const auto& [candidate, device] : CandidatesOnDevices<TopKOp>({DType::kBF16, 65536})) {
    DeviceCopies on(device);
    HostTensor values(DType::kBF16, {4, 1024});
    HostTensor indices(DType::kI32, {4, 1024});
    TopK(on(input), on(values), on(indices), {.backend = Backend(candidate)});
    on.Fetch();
    EXPECT_THAT(values.Values(), Each(0.984375)) << candidate;
    for (int64_t i = 0; i < 1024; ++i) ASSERT_EQ(indices.At({3, i}), 64 * i + 63) << candidate;
  }
}

TEST(TopK, InfinitiesAndNanAreOrdered) {
  for (const auto& [candidate, device] : CandidatesOnDevices<TopKOp>({DType::kF16, 7})) {
    DeviceCopies on(device);
    SCOPED_TRACE(candidate);
    HostTensor input(DType::kF16, {2, 7});
    input.FillWith({-kInfinity, 1, kInfinity, -0.0, 0.0, kInfinity, -kInfinity,  //
                    1, kNan, kInfinity, 2, kNan, -1, 3});
    HostTensor indices(DType::kI32, {2, 6});
    HostTensor values(DType::kF16, {2, 6});
    TopK(on(input), on(values), on(indices), {.sorted = true, .backend = Backend(candidate)});
    on.Fetch();
    EXPECT_THAT(indices.Values(), ElementsAre(2, 5, 1, 3, 4, 0, 1, 4, 2, 6, 3, 0));
    EXPECT_TRUE(std::isnan(values.At({1, 0})));
    HostTensor two(DType::kI32, {2, 3});
    TopK(on(input), TensorView(), on(two),
         {.tie_break = TieBreak::kHighestIndex, .backend = Backend(candidate)});
    on.Fetch();
    EXPECT_THAT(two.Values(), ElementsAre(1, 2, 5, 1, 2, 4));
  }
}

TEST(TopK, RangesOfRowsAndPlaces) {
  HostTensor input(DType::kF32, {3, 6});
  input.FillWith({9, 1, 4, 2, 8, 7,  //
                  9, 8, 7, 6, 5, 4,  //
                  0, 0, 0, 0, 0, 0});
  HostTensor starts(DType::kI32, {3});
  HostTensor lengths(DType::kI32, {3});
  starts.FillWith({1, 0, 3});
  lengths.FillWith({4, 0, 2});
  HostTensor page_table(DType::kI32, {2, 2});
  page_table.FillWith({5, 3, 8, 1});
  HostTensor requests(DType::kI32, {3});
  requests.FillWith({1, 0, 0});
  HostTensor offsets(DType::kI32, {3});
  offsets.FillWith({100, 200, 300});
  for (const auto& [candidate, device] : CandidatesOnDevices<TopKOp>({DType::kF32, 6})) {
    DeviceCopies on(device);
    SCOPED_TRACE(candidate);
    const TopKOptions options{
        .row_starts = on(starts), .lengths = on(lengths), .backend = Backend(candidate)};
    HostTensor out(DType::kI32, {3, 3});
    HostTensor values(DType::kF32, {3, 3});
    TopK(on(input), on(values), on(out), options);
    on.Fetch();
    EXPECT_THAT(out.Values(), ElementsAre(1, 2, 3, -1, -1, -1, 0, 1, -1));
    EXPECT_THAT(values.Values(),
                ElementsAre(4, 2, 8, -kInfinity, -kInfinity, -kInfinity, 0, 0, -kInfinity));
    TopKPageTableTransform(on(input), {on(page_table), on(requests), 2}, on(out), options);
    on.Fetch();
    EXPECT_THAT(out.Values(), ElementsAre(17, 2, 3, -1, -1, -1, 10, 11, -1));
    TopKRaggedTransform(on(input), on(offsets), on(out), options);
    on.Fetch();
    EXPECT_THAT(out.Values(), ElementsAre(101, 102, 103, -1, -1, -1, 300, 301, -1));
  }
  HostTensor out(DType::kI32, {3, 3});
  lengths.FillWith({6, 0, 2});
  EXPECT_THAT([&] { TopK(input, TensorView(), out, {.row_starts = starts, .lengths = lengths}); },
              ThrowsMessage<Error>("lengths: row 0 ends at column 7, input has 6"));
  EXPECT_THAT(
      [&] {
        TopKPageTableTransform(input, {page_table, requests, 2}, out, {.lengths = lengths});
      },
      ThrowsMessage<Error>("lengths: row 0 is 6, page_table has room for 4"));
}

TEST(TopK, RepeatedCallsAreBitEqual) {
  HostTensor input(DType::kF32, {2, 128256});
  std::mt19937_64 rng(2);
  input.FillUniform(rng, 0, 1);
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor first(DType::kI32, {2, 50});
    TopK(on(input), TensorView(), on(first), {.sorted = true});
    on.Fetch();
    HostTensor again(DType::kI32, {2, 50});
    for (int i = 0; i < 100; ++i) {
      again.Fill(-2);
      TopK(on(input), TensorView(), on(again), {.sorted = true});
      on.Fetch();
      ASSERT_EQ(again.bytes(), first.bytes());
    }
  }
}

TEST(TopK, LongListsAreSortedWhereTheyAreWritten) {
  constexpr int64_t kCount = 5000;
  HostTensor input(DType::kF32, {2, 20000});
  std::mt19937_64 rng(6);
  input.FillNormal(rng);
  input.Set({1, 7}, kNan);
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor values(DType::kF32, {2, kCount});
    HostTensor indices(DType::kI32, {2, kCount});
    TopK(on(input), on(values), on(indices), {.sorted = true});
    on.Fetch();
    EXPECT_TRUE(std::isnan(values.At({1, 0})));
    for (int64_t row : {0, 1}) {
      std::set<double> seen{indices.At({row, 0})};
      for (int64_t i = 1 + row; i < kCount; ++i) {
        const double index = indices.At({row, i});
        ASSERT_GE(values.At({row, i - 1}), values.At({row, i})) << i;
        ASSERT_EQ(values.At({row, i}), input.At({row, static_cast<int64_t>(index)}));
        ASSERT_TRUE(seen.insert(index).second);
      }
    }
  }
}

TEST(TopK, EmptyAndManyRows) {
  HostTensor input(DType::kF32, {70000, 3});
  std::mt19937_64 rng(5);
  input.FillUniform(rng, 0, 1);
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor none(DType::kF32, {0, 9});
    HostTensor no_indices(DType::kI32, {0, 3});
    TopK(on(none), TensorView(), on(no_indices));
    HostTensor indices(DType::kI32, {70000, 1});
    TopK(on(input), TensorView(), on(indices));
    on.Fetch();
    for (int64_t row = 0; row < 70000; ++row) {
      double max = 0;
      for (int64_t i = 0; i < 3; ++i) max = std::max(max, input.At({row, i}));
      ASSERT_EQ(input.At({row, static_cast<int64_t>(indices.At({row, 0}))}), max);
    }
  }
}

TEST(TopK, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor input(DType::kF32, {2, 8});
  HostTensor indices(DType::kF32, {2, 3});
  HostTensor good(DType::kI32, {2, 3});
  HostTensor values(DType::kF32, {2, 4});
  EXPECT_THAT([&] { TopK(input, TensorView(), indices); },
              ThrowsMessage<Error>("indices: dtype is f32, accepted: i32, i64"));
  EXPECT_THAT([&] { TopK(input, values, good); },
              ThrowsMessage<Error>("values: shape is [2, 4], expected [2, 3]"));
}

}  // namespace
}  // namespace flashinfer::test
