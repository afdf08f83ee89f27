// SPDX-License-Identifier: Apache-2.0
// Batch prefill and append: every candidate over the shared cases, and masked rows.
#include "ops/batch_prefill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flashinfer/attention/prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"
#include "support/device.h"

namespace flashinfer::test {
namespace {

class BatchPrefillCaseTest : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(BatchPrefillCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckBatchPrefill, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, BatchPrefillCaseTest, ::testing::ValuesIn(PrefillCases()));
INSTANTIATE_TEST_SUITE_P(Features, BatchPrefillCaseTest,
                         ::testing::ValuesIn(PrefillFeatureCases()));

TEST(BatchPrefill, FixedSplitsMakeARowIndependentOfItsChunk) {
  // Prefilled at once or in chunks: the same bits, whichever rows share a tile.
  AttentionProblem p = AttentionOf(DType::kBF16, DType::kBF16, DType::kF32, 6, 2, 64, 64, 16);
  p.mask = MaskMode::kCausal;
  p.fixed_split_size = 64;
  const AttentionCase whole{p, {300}, {300}};
  for (const auto& [candidate, device] : CandidatesOnDevices<BatchPrefillOp>(p)) {
    AttentionInputs in(whole, 35);
    Workspace workspace(device);
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
      DeviceCopies on(device);
      prefill.Plan(p, view(qo_indptr), {view(indptr), on(view(in.indices)), view(last)}, {},
                   Backend(candidate));
      prefill.Run(on(in.q).Slice(begin, end), {on(in.k_pool), on(in.v_pool), in.cache().layout},
                  on(in.out).Slice(begin, end), on(in.lse).Slice(begin, end));
      on.Fetch();
    }
    EXPECT_EQ(in.out.Values(), at_once) << candidate;
    EXPECT_EQ(in.lse.Values(), lse_at_once) << candidate;
  }
}

TEST(BatchPrefill, FixedSplitsMakeARequestIndependentOfTheBatch) {
  AttentionProblem p = AttentionOf(DType::kBF16, DType::kBF16, DType::kF32, 4, 2, 32, 32, 16);
  p.mask = MaskMode::kCausal;
  for (int32_t window : {-1, 100}) {
    p.window_left = window;
    p.fixed_split_size = 128;
    for (const auto& [candidate, device] : CandidatesOnDevices<BatchPrefillOp>(p)) {
      const AttentionCase alone{p, {150}, {321}};
      const AttentionInputs in(alone, 36);
      Workspace workspace(device);
      RunPrefill(alone, in, workspace, candidate);
      // Last of many short ones, and before a long one.
      for (bool comes_last : {true, false}) {
        AttentionCase c{p, std::vector<int32_t>(20, 3), std::vector<int32_t>(20, 30)};
        if (!comes_last) c = {p, {40}, {3000}};
        const int64_t b = comes_last ? 20 : 0;
        c.q_len.insert(c.q_len.begin() + b, 150);
        c.kv_len.insert(c.kv_len.begin() + b, 321);
        AttentionInputs among(c, 37);
        for (int64_t t = 0; t < 321; ++t) {
          for (int64_t g = 0; g < 2; ++g) {
            for (int64_t d = 0; d < 32; ++d) {
              among.SetKey(b, t, g, d, in.Key(0, t, g, d));
              among.SetValue(b, t, g, d, in.Value(0, t, g, d));
            }
          }
        }
        const int64_t first = comes_last ? 60 : 0;
        for (int64_t i = 0; i < 150; ++i) {
          for (int64_t h = 0; h < 4; ++h) {
            for (int64_t d = 0; d < 32; ++d) among.q.Set({first + i, h, d}, in.q.At({i, h, d}));
          }
        }
        RunPrefill(c, among, workspace, candidate);
        for (int64_t i = 0; i < 150; ++i) {
          for (int64_t h = 0; h < 4; ++h) {
            ASSERT_EQ(among.lse.At({first + i, h}), in.lse.At({i, h})) << candidate;
            for (int64_t d = 0; d < 32; ++d) {
              ASSERT_EQ(among.out.At({first + i, h, d}), in.out.At({i, h, d})) << candidate;
            }
          }
        }
      }
    }
  }
}

TEST(BatchPrefill, ManyRequestsOfOneToken) {
  constexpr int64_t kRequests = 65537;
  const AttentionProblem p = AttentionOf(DType::kF16, DType::kF16, DType::kF16, 2, 1, 16, 16, 1);
  std::vector<int32_t> indptr(kRequests + 1);
  for (size_t i = 0; i < indptr.size(); ++i) indptr[i] = static_cast<int32_t>(i);
  HostTensor q(DType::kF16, {kRequests, 2, 16});
  HostTensor out(DType::kF16, {kRequests, 2, 16});
  HostTensor k(DType::kF16, {kRequests, 1, 16});
  HostTensor v(DType::kF16, {kRequests, 1, 16});
  q.Fill(1);
  k.Fill(1);
  for (int64_t b = 0; b < kRequests; ++b) {
    for (int64_t d = 0; d < 16; ++d) v.Set({b, 0, d}, static_cast<double>(b % 1024));
  }
  const TensorView view(indptr.data(), DType::kI32, {kRequests + 1});
  Workspace workspace;
  BatchPrefillRagged prefill(workspace);
  prefill.Plan(p, view, view);
  prefill.Run(q, {k, v}, out);
  for (int64_t b = 0; b < kRequests; ++b) {
    ASSERT_EQ(out.At({b, 1, 15}), static_cast<double>(b % 1024)) << b;
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
