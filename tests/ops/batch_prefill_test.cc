// SPDX-License-Identifier: Apache-2.0
// Batch prefill and append: every candidate over the shared cases, and masked rows.
#include "ops/batch_prefill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "flashinfer/attention/prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class BatchPrefillCaseTest : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(BatchPrefillCaseTest, EveryCandidateMatchesTheOracle) {
  const AttentionCase& c = GetParam();
  Workspace workspace;
  AttentionResult expected;
  for (const std::string& candidate : AcceptingCandidates<BatchPrefillOp>(c.problem)) {
    SCOPED_TRACE(CaseText(candidate, c));
    const AttentionInputs in(c, 31);
    if (expected.lse.empty()) expected = AttentionOracle(c, in);
    RunPrefill(c, in, workspace, candidate);
    ExpectMatches(c, in, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, BatchPrefillCaseTest, ::testing::ValuesIn(PrefillCases()));
INSTANTIATE_TEST_SUITE_P(Features, BatchPrefillCaseTest,
                         ::testing::ValuesIn(PrefillFeatureCases()));

TEST(BatchPrefill, RowsWithoutKeysAreZeroAndMinusInfinity) {
  // 4 queries, 2 keys, causal: rows 0 and 1 see nothing, row 2 sees v = 1, row 3 sees 1 and 3.
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    AttentionProblem p = AttentionOf(dtype, dtype, dtype, 1, 1, 128, 128, 16);
    p.mask = MaskMode::kCausal;
    const AttentionCase c{p, {4}, {2}};
    AttentionInputs in(c, 32);
    for (int64_t d = 0; d < 128; ++d) {
      in.SetKey(0, 0, 0, d, 0);
      in.SetKey(0, 1, 0, d, 0);
      in.SetValue(0, 0, 0, d, 1);
      in.SetValue(0, 1, 0, d, 3);
    }
    Workspace workspace;
    RunPrefill(c, in, workspace);
    const double out[] = {0, 0, 1, 2};
    const double lse[] = {-kInf, -kInf, 0, 1};
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(in.out.At({row, 0, 64}), out[row]);
      EXPECT_EQ(in.lse.At({row, 0}), lse[row]);
    }
  }
}

TEST(BatchPrefill, ValuesThatARowMayNotSeeMayBeNaN) {
  AttentionProblem p = AttentionOf(DType::kF32, DType::kF32, DType::kF32, 2, 1, 64, 64, 16);
  p.mask = MaskMode::kCausal;
  const AttentionCase c{p, {80}, {80}};
  AttentionInputs in(c, 33);
  const AttentionResult expected = AttentionOracle(c, in);
  for (int64_t d = 0; d < 64; ++d) in.SetValue(0, 79, 0, d, std::nan(""));
  Workspace workspace;
  RunPrefill(c, in, workspace);
  for (int64_t row = 0; row < 79; ++row) {
    for (int64_t d = 0; d < 64; ++d) {
      const size_t at = static_cast<size_t>((row * 2 + 1) * 64 + d);
      EXPECT_TRUE(Near(in.out.At({row, 1, d}), expected.out[at], ToleranceOf(DType::kF32, 512)));
    }
  }
}

TEST(BatchPrefill, FixedSplitsMakeARowIndependentOfItsChunk) {
  // Prefilled at once or in chunks: the same bits, whichever rows share a tile.
  AttentionProblem p = AttentionOf(DType::kBF16, DType::kBF16, DType::kF32, 6, 2, 64, 64, 16);
  p.mask = MaskMode::kCausal;
  p.fixed_split_size = 64;
  const AttentionCase whole{p, {300}, {300}};
  for (const std::string& candidate : AcceptingCandidates<BatchPrefillOp>(p)) {
    AttentionInputs in(whole, 35);
    Workspace workspace;
    RunPrefill(whole, in, workspace, candidate);
    const std::vector<double> at_once = in.out.Values();
    const std::vector<double> lse_at_once = in.lse.Values();
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 128}, {128, 299}, {299, 300}}) {
      BatchPrefill prefill(workspace);
      const std::vector<int32_t> qo_indptr{0, static_cast<int32_t>(end - begin)};
      const std::vector<int32_t> indptr{0, static_cast<int32_t>((end + 15) / 16)};
      const std::vector<int32_t> last{static_cast<int32_t>((end - 1) % 16 + 1)};
      const auto view = [](const std::vector<int32_t>& x) {
        return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
      };
      prefill.Plan(p, view(qo_indptr), {view(indptr), view(in.indices), view(last)}, {},
                   Backend(candidate));
      prefill.Run(in.q.view().Slice(begin, end), in.cache(), in.out.view().Slice(begin, end),
                  in.lse.view().Slice(begin, end));
    }
    EXPECT_EQ(in.out.Values(), at_once) << candidate;
    EXPECT_EQ(in.lse.Values(), lse_at_once) << candidate;
  }
}

TEST(BatchPrefill, ChunksGiveWhatOnePassGives) {
  AttentionProblem p = AttentionOf(DType::kF32, DType::kF16, DType::kF32, 6, 2, 64, 64, 16);
  p.mask = MaskMode::kCausal;
  const AttentionCase whole{p, {300}, {300}};
  const AttentionInputs in(whole, 34);
  const AttentionResult expected = AttentionOracle(whole, in);
  Workspace workspace;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 128}, {128, 300}}) {
    BatchPrefill prefill(workspace);
    const std::vector<int32_t> qo_indptr{0, static_cast<int32_t>(end - begin)};
    const std::vector<int32_t> indptr{0, static_cast<int32_t>((end + 15) / 16)};
    const std::vector<int32_t> last{static_cast<int32_t>((end - 1) % 16 + 1)};
    const auto view = [](const std::vector<int32_t>& x) {
      return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
    };
    prefill.Plan(p, view(qo_indptr), {view(indptr), view(in.indices), view(last)});
    prefill.Run(in.q.view().Slice(begin, end), in.cache(), in.out.view().Slice(begin, end),
                in.lse.view().Slice(begin, end));
  }
  ExpectMatches(whole, in, expected);
}

}  // namespace
}  // namespace flashinfer::test
