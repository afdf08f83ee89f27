// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache: every slot right, nothing else touched, errors before any write.
#include "ops/page_append.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/attention_oracle.h"
#include "support/candidates.h"
#include "support/cases/attention.h"
#include "support/compare.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The last q_len tokens of each request are new.
struct NewTokens {
  NewTokens(const AttentionCase& c, std::mt19937_64& rng)
      : k(c.problem.dtype_q, {Count(c), c.problem.num_kv_heads, c.problem.head_dim_qk}),
        v(c.problem.dtype_q, {Count(c), c.problem.num_kv_heads, c.problem.head_dim_vo}) {
    k.FillNormal(rng);
    v.FillNormal(rng);
    for (size_t b = 0; b < c.q_len.size(); ++b) {
      for (int32_t i = 0; i < c.q_len[b]; ++i) {
        requests.push_back(static_cast<int32_t>(b));
        positions.push_back(c.kv_len[b] - c.q_len[b] + i);
      }
    }
  }
  static int64_t Count(const AttentionCase& c) {
    int64_t count = 0;
    for (int32_t n : c.q_len) count += n;
    return count;
  }
  static TensorView View(const std::vector<int32_t>& x) {
    return {x.data(), DType::kI32, {static_cast<int64_t>(x.size())}};
  }
  HostTensor k;
  HostTensor v;
  std::vector<int32_t> requests;
  std::vector<int32_t> positions;
};

TEST(PageAppend, EveryCandidateFillsTheSlotsAndNothingElse) {
  for (const auto& [dtype, dtype_kv] : {std::pair{DType::kF32, DType::kF32},
                                        {DType::kF32, DType::kF16},
                                        {DType::kBF16, DType::kBF16},
                                        {DType::kF16, DType::kF32}}) {
    for (KvLayout layout : {KvLayout::kNHD, KvLayout::kHND}) {
      for (int32_t page_size : {1, 5, 16}) {
        const AttentionCase c{AttentionOf(dtype, dtype_kv, dtype, 2, 2, 40, 24, page_size),
                              {3, 0, 17, 1},
                              {3, 5, 40, 33},
                              layout,
                              true};
        for (const std::string& candidate : AcceptingCandidates<PageAppendOp>({dtype, dtype_kv})) {
          SCOPED_TRACE(candidate + " page_size=" + std::to_string(page_size));
          std::mt19937_64 rng(41);
          AttentionInputs in(c, 42);
          AttentionInputs expected(c, 42);
          const NewTokens tokens(c, rng);
          for (int64_t i = 0; i < tokens.k.view().shape(0); ++i) {
            const int32_t b = tokens.requests[static_cast<size_t>(i)];
            const int32_t at = tokens.positions[static_cast<size_t>(i)];
            for (int64_t g = 0; g < 2; ++g) {
              for (int64_t d = 0; d < 40; ++d) expected.SetKey(b, at, g, d, tokens.k.At({i, g, d}));
              for (int64_t d = 0; d < 24; ++d) {
                expected.SetValue(b, at, g, d, tokens.v.At({i, g, d}));
              }
            }
          }
          AppendPagedKvCache(tokens.k, tokens.v, NewTokens::View(tokens.requests),
                             NewTokens::View(tokens.positions), in.cache(), in.pages(),
                             Backend(candidate));
          EXPECT_EQ(in.k_pool.bytes(), expected.k_pool.bytes());
          EXPECT_EQ(in.v_pool.bytes(), expected.v_pool.bytes());
        }
      }
    }
  }
}

TEST(PageAppend, ErrorsComeBeforeAnythingIsWritten) {
  const AttentionCase c{
      AttentionOf(DType::kF32, DType::kF32, DType::kF32, 2, 2, 16, 16, 4), {2, 2}, {6, 2}};
  std::mt19937_64 rng(43);
  AttentionInputs in(c, 44);
  NewTokens tokens(c, rng);
  const std::vector<uint8_t> before = in.k_pool.bytes();
  const auto append = [&] {
    AppendPagedKvCache(tokens.k, tokens.v, NewTokens::View(tokens.requests),
                       NewTokens::View(tokens.positions), in.cache(), in.pages());
  };
  tokens.positions[1] = 6;
  EXPECT_THAT(append, ThrowsMessage<Error>("positions[1]: is 6, request 0 has kv_len 6"));
  tokens.positions[1] = -1;
  EXPECT_THAT(append, ThrowsMessage<Error>("positions[1]: is -1, request 0 has kv_len 6"));
  tokens.positions[1] = 5;
  tokens.requests[3] = 2;
  EXPECT_THAT(append, ThrowsMessage<Error>("batch_indices[3]: is 2, accepted: 0 to 1"));
  tokens.requests[3] = 1;
  in.indices[1] = -1;
  EXPECT_THAT(append, ThrowsMessage<Error>(HasSubstr("indices[1]: is -1, the cache has pages 0")));
  EXPECT_EQ(in.k_pool.bytes(), before);
}

}  // namespace
}  // namespace flashinfer::test
