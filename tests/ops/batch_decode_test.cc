// SPDX-License-Identifier: Apache-2.0
// Batch decode: every candidate over the shared cases, and what once went wrong elsewhere.
#include "ops/batch_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "flashinfer/attention/decode.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

class BatchDecodeCaseTest : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(BatchDecodeCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckBatchDecode, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, BatchDecodeCaseTest, ::testing::ValuesIn(DecodeCases()));
INSTANTIATE_TEST_SUITE_P(Features, BatchDecodeCaseTest, ::testing::ValuesIn(DecodeFeatureCases()));

TEST(BatchDecode, RequestsThatShareAPageAgree) {
  // Page size 2, one page of one token each, the same keys: the second must not be zero.
  const AttentionCase c{
      AttentionOf(DType::kF16, DType::kF16, DType::kF16, 32, 8, 64, 64, 2), {1, 1}, {1, 1}};
  AttentionInputs in(c, 25);
  in.indices[1] = in.indices[0];
  for (int64_t h = 0; h < 32; ++h) {
    for (int64_t d = 0; d < 64; ++d) in.q.Set({1, h, d}, in.q.At({0, h, d}));
  }
  Workspace workspace;
  RunDecode(c, in, workspace);
  for (int64_t h = 0; h < 32; ++h) {
    for (int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(in.out.At({0, h, d}), in.out.At({1, h, d}));
      EXPECT_EQ(in.out.At({0, h, d}), in.Value(0, 0, h / 4, d));
    }
  }
}

TEST(BatchDecode, PagesMayLieInAnyOrder) {
  for (DType kv : {DType::kF16, DType::kI8}) {
    const AttentionCase c{
        AttentionOf(DType::kF16, kv, DType::kF16, 6, 2, 64, 64, 7), {1, 1, 1}, {150, 1, 63}};
    const AttentionInputs in(c, 25);
    AttentionInputs moved(c, 25);
    std::reverse(moved.indices.begin(), moved.indices.end());
    for (size_t b = 0; b < c.kv_len.size(); ++b) {
      for (int64_t t = 0; t < c.kv_len[b]; ++t) {
        for (int64_t g = 0; g < 2; ++g) {
          for (int64_t d = 0; d < 64; ++d) {
            const auto request = static_cast<int64_t>(b);
            moved.SetKey(request, t, g, d, in.Key(request, t, g, d));
            moved.SetValue(request, t, g, d, in.Value(request, t, g, d));
          }
        }
      }
    }
    Workspace workspace;
    RunDecode(c, in, workspace);
    RunDecode(c, moved, workspace);
    EXPECT_EQ(in.out.bytes(), moved.out.bytes());
    EXPECT_EQ(in.lse.bytes(), moved.lse.bytes());
  }
}

TEST(BatchDecode, PaddedRowsOfZeroLengthStayZeroAndChangeNothing) {
  for (DType kv : {DType::kBF16, DType::kE4M3}) {
    for (int32_t num_kv_heads : {1, 8}) {
      const AttentionProblem p =
          AttentionOf(DType::kBF16, kv, DType::kBF16, 8, num_kv_heads, 128, 128, 16);
      const AttentionCase padded{p, std::vector<int32_t>(8, 1), {5, 70, 300, 16, 1, 0, 0, 0}};
      const AttentionCase live{p, std::vector<int32_t>(5, 1), {5, 70, 300, 16, 1}};
      AttentionInputs in(padded, 26);
      for (int64_t b = 5; b < 8; ++b) {
        for (int64_t h = 0; h < 8; ++h) {
          for (int64_t d = 0; d < 128; ++d) in.q.Set({b, h, d}, std::nan(""));
        }
      }
      Workspace workspace;
      RunDecode(padded, in, workspace);
      HostTensor out(DType::kBF16, {5, 8, 128});
      HostTensor lse(DType::kF32, {5, 8});
      BatchDecode decode(workspace);
      const PageTable pages = in.pages();
      decode.Plan(p, {{in.indptr.data(), DType::kI32, {6}},
                      pages.indices,
                      {in.last_page_len.data(), DType::kI32, {5}}});
      decode.Run(in.q.view().Slice(0, 5), in.cache(), out, lse, in.extras());
      const AttentionResult expected = AttentionOracle(live, in);
      EXPECT_TRUE(AllNear(out, expected.out, ToleranceOf(DType::kBF16)));
      for (int64_t b = 0; b < 8; ++b) {
        for (int64_t h = 0; h < 8; ++h) {
          EXPECT_EQ(in.lse.At({b, h}), b < 5 ? lse.At({b, h}) : -kInf);
          for (int64_t d = 0; d < 128; ++d) {
            ASSERT_EQ(in.out.At({b, h, d}), b < 5 ? out.At({b, h, d}) : 0.0) << b;
          }
        }
      }
    }
  }
}

TEST(BatchDecode, ManyRequests) {
  constexpr int64_t kRequests = 200000;
  const AttentionProblem p = AttentionOf(DType::kF16, DType::kF16, DType::kF16, 8, 1, 16, 16, 1);
  const std::vector<int32_t> last(kRequests, 1);
  const std::vector<int32_t> indptr = Indptr(last);
  const std::vector<int32_t> indices(indptr.begin(), indptr.end() - 1);
  HostTensor q(DType::kF16, {kRequests, 8, 16});
  HostTensor out(DType::kF16, {kRequests, 8, 16});
  HostTensor k(DType::kF16, {kRequests, 1, 1, 16});
  HostTensor v(DType::kF16, {kRequests, 1, 1, 16});
  q.Fill(1);
  k.Fill(1);
  for (int64_t b = 0; b < kRequests; ++b) {
    for (int64_t d = 0; d < 16; ++d) v.Set({b, 0, 0, d}, static_cast<double>(b % 1024));
  }
  Workspace workspace;
  BatchDecode decode(workspace);
  decode.Plan(p, {ViewOf(indptr), ViewOf(indices), ViewOf(last)});
  decode.Run(q, {k, v}, out);
  for (int64_t b = 0; b < kRequests; ++b) {
    ASSERT_EQ(out.At({b, 7, 15}), static_cast<double>(b % 1024)) << b;
  }
}

TEST(BatchDecode, ASmallWorkspaceMeansFewerSplitsAndTheSameAnswer) {
  const AttentionCase c{
      AttentionOf(DType::kF32, DType::kF16, DType::kF32, 9, 3, 64, 64, 16), {1}, {4000}};
  const AttentionInputs in(c, 27);
  const AttentionResult expected = AttentionOracle(c, in);
  const size_t full = BatchDecode::WorkspaceBytes(c.problem, 1);
  bool was_refused = false;
  for (size_t bytes : {full, full / 4 * 3, full / 2, full / 4, size_t{64}}) {
    std::vector<char> memory(bytes + 64);
    char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    Workspace workspace = Workspace::Borrow(aligned, bytes);
    try {
      RunDecode(c, in, workspace);
      EXPECT_TRUE(AllNear(in.out, expected.out, ToleranceOf(DType::kF32, 512)));
    } catch (const Error& error) {
      was_refused = true;
      EXPECT_THAT(error.what(), HasSubstr("bytes are needed"));
      EXPECT_LT(bytes, full);
    }
  }
  EXPECT_TRUE(was_refused);  // 64 bytes do not even hold one thread's tile
}

TEST(BatchDecode, FixedSplitsMakeARequestIndependentOfTheBatch) {
  AttentionProblem p = AttentionOf(DType::kBF16, DType::kBF16, DType::kF32, 6, 2, 64, 64, 16);
  for (int32_t split : {64, 256}) {
    p.fixed_split_size = split;
    for (const std::string& candidate : AcceptingCandidates<BatchDecodeOp>(p)) {
      // The same tokens alone, among short requests, and before a long one that takes the lanes.
      AttentionResult alone;
      for (const std::vector<int32_t>& others :
           {std::vector<int32_t>{}, std::vector<int32_t>(40, 9), std::vector<int32_t>{5000}}) {
        AttentionCase c{p, {1}, {1203}};
        c.q_len.resize(others.size() + 1, 1);
        c.kv_len.insert(c.kv_len.end(), others.begin(), others.end());
        AttentionInputs in(c, 29);
        const AttentionInputs same({p, {1}, {1203}}, 30);
        for (int64_t t = 0; t < 1203; ++t) {
          for (int64_t g = 0; g < 2; ++g) {
            for (int64_t d = 0; d < 64; ++d) {
              in.SetKey(0, t, g, d, same.Key(0, t, g, d));
              in.SetValue(0, t, g, d, same.Value(0, t, g, d));
            }
          }
        }
        for (int64_t h = 0; h < 6; ++h) {
          for (int64_t d = 0; d < 64; ++d) in.q.Set({0, h, d}, same.q.At({0, h, d}));
        }
        Workspace workspace;
        RunDecode(c, in, workspace, candidate);
        AttentionResult first;
        for (int64_t h = 0; h < 6; ++h) {
          first.lse.push_back(in.lse.At({0, h}));
          for (int64_t d = 0; d < 64; ++d) first.out.push_back(in.out.At({0, h, d}));
        }
        if (others.empty()) alone = first;
        EXPECT_EQ(first.out, alone.out) << candidate << " split " << split;
        EXPECT_EQ(first.lse, alone.lse) << candidate << " split " << split;
      }
    }
  }
}

TEST(BatchDecode, PlansMayShareAWorkspaceThatGrows) {
  const AttentionCase small{
      AttentionOf(DType::kF32, DType::kF16, DType::kF32, 9, 3, 64, 64, 16), {1}, {900}};
  const AttentionCase large{
      AttentionOf(DType::kF32, DType::kF16, DType::kF32, 64, 1, 512, 512, 16), {1}, {900}};
  const AttentionInputs in(small, 27);
  const AttentionInputs other(large, 28);
  Workspace workspace;
  BatchDecode first(workspace);
  BatchDecode second(workspace);
  first.Plan(small.problem, in.pages());
  second.Plan(large.problem, other.pages());
  first.Run(in.q, in.cache(), in.out, in.lse);
  second.Run(other.q, other.cache(), other.out, other.lse);
  ExpectMatches(small, in, AttentionOracle(small, in));
  ExpectMatches(large, other, AttentionOracle(large, other));
}

TEST(BatchDecode, ErrorsNameArgumentValueAndWhatIsAccepted) {
  const AttentionCase c{
      AttentionOf(DType::kF16, DType::kF16, DType::kF16, 4, 2, 64, 64, 16), {1, 1}, {20, 5}};
  AttentionInputs in(c, 28);
  Workspace workspace;
  BatchDecode decode(workspace);
  EXPECT_THAT([&] { decode.Run(in.q, in.cache(), in.out); },
              ThrowsMessage<Error>(HasSubstr("before a successful Plan()")));
  const auto plan = [&](auto change) {
    return [&, change] {
      AttentionProblem p = c.problem;
      change(p);
      decode.Plan(p, in.pages());
    };
  };
  EXPECT_THAT(plan([](auto& p) { p.num_qo_heads = 5; }),
              ThrowsMessage<Error>("num_qo_heads: is 5, expected a multiple of num_kv_heads, 2"));
  EXPECT_THAT(plan([](auto& p) { p.head_dim_qk = 63; }),
              ThrowsMessage<Error>("head_dim_qk: is 63, accepted: multiples of 8 up to 512"));
  EXPECT_THAT(plan([](auto& p) { p.dtype_kv = DType::kI32; }),
              ThrowsMessage<Error>(HasSubstr("dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8")));
  for (int32_t wrong : {0, 17}) {
    const int32_t right = in.last_page_len[1];
    in.last_page_len[1] = wrong;
    EXPECT_THAT(plan([](auto&) {}),
                ThrowsMessage<Error>(
                    fmt::format("last_page_len[1]: is {}, accepted: 1 to page_size, 16", wrong)));
    in.last_page_len[1] = right;
  }
  decode.Plan(c.problem, in.pages());
  HostTensor wrong_q(DType::kF16, {2, 4, 32});
  EXPECT_THAT([&] { decode.Run(wrong_q, in.cache(), in.out); },
              ThrowsMessage<Error>("q: shape is [2, 4, 32], expected [2, 4, 64]"));
  in.indices[0] = 1000000;
  EXPECT_THAT([&] { decode.Run(in.q, in.cache(), in.out); },
              ThrowsMessage<Error>(HasSubstr("indices[0]: is 1000000, the cache has pages 0 to")));
}

}  // namespace
}  // namespace flashinfer::test
