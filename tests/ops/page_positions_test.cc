// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths: known answers, shared cases, errors.
#include "ops/page_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "flashinfer/error.h"
#include "support/candidates.h"
#include "support/checks/page_positions.h"
#include "support/compare.h"

namespace flashinfer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TensorView View(const std::vector<int32_t>& x) {
  return {x.data(), DType::kI32, {static_cast<int64_t>(x.size())}};
}

struct Tokens {
  explicit Tokens(size_t n) : batch_indices(n, 77), positions(n, 77) {}
  std::vector<int32_t> batch_indices;
  std::vector<int32_t> positions;
};

TEST(BatchIndicesPositions, KnownAnswer) {
  for (const std::string& candidate : AcceptingCandidates<BatchIndicesPositionsOp>({})) {
    Tokens t(8);
    const std::vector<int32_t> indptr{0, 2, 2, 5};
    GetBatchIndicesPositions(View(indptr), View({5, 9, 3}), View(t.batch_indices),
                             View(t.positions), Backend(candidate));
    EXPECT_THAT(t.batch_indices, ElementsAre(0, 0, 2, 2, 2, -1, -1, -1));
    EXPECT_THAT(t.positions, ElementsAre(3, 4, 0, 1, 2, -1, -1, -1));
  }
}

class BatchIndicesPositionsTest : public ::testing::TestWithParam<BatchIndicesPositionsCase> {};

TEST_P(BatchIndicesPositionsTest, EveryCandidateListsEachToken) {
  ExpectCaseHolds(CheckBatchIndicesPositions, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, BatchIndicesPositionsTest,
                         ::testing::ValuesIn(BatchIndicesPositionsCases()));

class SeqLensTest : public ::testing::TestWithParam<SeqLensCase> {};

TEST_P(SeqLensTest, EveryCandidateCountsEachPage) { ExpectCaseHolds(CheckSeqLens, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, SeqLensTest, ::testing::ValuesIn(SeqLensCases()));

TEST(BatchIndicesPositions, ErrorsNameArgumentValueAndWhatIsAccepted) {
  Tokens t(4);
  const auto get = [&](const std::vector<int32_t>& indptr, const std::vector<int32_t>& lens) {
    return [&t, indptr, lens] {
      GetBatchIndicesPositions(View(indptr), View(lens), View(t.batch_indices), View(t.positions));
    };
  };
  EXPECT_THAT(get({0, 3}, {2}),
              ThrowsMessage<Error>("seq_lens[0]: is 2, expected at least its 3 new tokens"));
  EXPECT_THAT(get({0, 5}, {9}),
              ThrowsMessage<Error>("append_indptr[1]: is 5, batch_indices has room for 4 tokens"));
  EXPECT_THAT(get({0, 3, 2}, {9, 9}),
              ThrowsMessage<Error>("append_indptr[2]: is 2, less than 3 before it"));
  EXPECT_THAT(get({0, 1}, {9, 9}), ThrowsMessage<Error>(HasSubstr("seq_lens: shape is [2]")));
  EXPECT_THAT(t.positions, ElementsAre(77, 77, 77, 77));
}

TEST(SeqLens, KnownAnswerAndErrors) {
  for (const std::string& candidate : AcceptingCandidates<SeqLensOp>({})) {
    std::vector<int32_t> lens(4, 77);
    GetSeqLens(View({0, 1, 1, 4, 6}), View({3, 99, 16, 1}), 16, View(lens), Backend(candidate));
    EXPECT_THAT(lens, ElementsAre(3, 0, 48, 17));
  }
  std::vector<int32_t> lens(1, 77);
  EXPECT_THAT(
      [&] {
        GetSeqLens(View({0, 1}), View({0}), 16, View(lens));
      },
      ThrowsMessage<Error>("last_page_len[0]: is 0, accepted: 1 to page_size, 16"));
  EXPECT_THAT(
      [&] {
        GetSeqLens(View({0, 1}), View({17}), 16, View(lens));
      },
      ThrowsMessage<Error>("last_page_len[0]: is 17, accepted: 1 to page_size, 16"));
  EXPECT_THAT(
      [&] {
        GetSeqLens(View({0, 1}), View({1}), 0, View(lens));
      },
      ThrowsMessage<Error>("page_size: is 0, expected 1 or more"));
  EXPECT_THAT(
      [&] {
        GetSeqLens(View({0, 70000}), View({1}), 65536, View(lens));
      },
      ThrowsMessage<Error>(HasSubstr("70000 pages of 65536 tokens are too many")));
  EXPECT_THAT(lens, ElementsAre(77));
}

}  // namespace
}  // namespace flashinfer::test
