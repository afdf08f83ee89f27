// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache and gathering from it: every slot right, nothing else touched,
// errors before any write.
#include "ops/page_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>

#include "support/attention_oracle.h"
#include "support/candidates.h"
#include "support/cases/attention.h"
#include "support/cases/page_copy.h"
#include "support/compare.h"
#include "support/device.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

AttentionCase AttentionOfCopy(const PageCopyCase& c) {
  const AttentionProblem p =
      AttentionOf(c.dtype, c.dtype_kv, c.dtype, 2, 2, c.head_dim_k, c.head_dim_v, c.page_size);
  return {p, {3, 0, 17, 1}, {3, 5, 40, 33}, c.hnd ? KvLayout::kHND : KvLayout::kNHD, c.strided};
}

/// The last q_len tokens of each request are new; a token in the middle belongs to no request.
struct NewTokens {
  NewTokens(const AttentionCase& c, bool strided)
      : k(Rows(c, c.problem.head_dim_qk, strided)), v(Rows(c, c.problem.head_dim_vo, strided)) {
    for (size_t b = 0; b < c.q_len.size(); ++b) {
      for (int32_t i = 0; i < c.q_len[b]; ++i) {
        requests.push_back(static_cast<int32_t>(b));
        positions.push_back(c.kv_len[b] - c.q_len[b] + i);
      }
      if (b + 1 == c.q_len.size() / 2) {
        requests.push_back(-1);
        positions.push_back(-1);
      }
    }
  }
  static HostTensor Rows(const AttentionCase& c, int64_t dim, bool strided) {
    int64_t count = 1;
    for (int32_t n : c.q_len) count += n;
    const int64_t heads = c.problem.num_kv_heads;
    if (!strided) return {c.problem.dtype_q, {count, heads, dim}};
    return {c.problem.dtype_q, {count, heads, dim}, {dim, (dim + 3) * count, 1}, 5};
  }
  int64_t size() const { return static_cast<int64_t>(requests.size()); }
  TensorView batch_indices() const { return {requests.data(), DType::kI32, {size()}}; }
  TensorView position_view() const { return {positions.data(), DType::kI32, {size()}}; }
  HostTensor k;
  HostTensor v;
  std::vector<int32_t> requests;
  std::vector<int32_t> positions;
};

PagedKvCache CacheOn(const AttentionInputs& in, DeviceCopies& on) {
  on(in.k_pool);
  on(in.v_pool);
  const PagedKvCache cache = in.cache();
  return {on(cache.k), on(cache.v), cache.layout};
}

PageTable PagesOn(const AttentionInputs& in, DeviceCopies& on) {
  const PageTable pages = in.pages();
  return {on(pages.indptr), on(pages.indices), pages.last_page_len};
}

class PageCopyCaseTest : public ::testing::TestWithParam<PageCopyCase> {};

/// Sets (request, position, head, element) of both pools of `expected` from the rows.
void WriteSlots(const PageCopyCase& c, const NewTokens& tokens, AttentionInputs& expected) {
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const int32_t b = tokens.requests[static_cast<size_t>(i)];
    const int32_t at = tokens.positions[static_cast<size_t>(i)];
    if (b < 0) continue;
    for (int64_t g = 0; g < 2; ++g) {
      for (int64_t d = 0; d < c.head_dim_k; ++d) {
        expected.SetKey(b, at, g, d, tokens.k.At({i, g, d}) * (1 / c.k_scale));
      }
      for (int64_t d = 0; d < c.head_dim_v; ++d) {
        expected.SetValue(b, at, g, d, tokens.v.At({i, g, d}) * (1 / c.v_scale));
      }
    }
  }
}

TEST_P(PageCopyCaseTest, EveryCandidateFillsTheSlotsAndNothingElse) {
  const PageCopyCase& c = GetParam();
  const AttentionCase a = AttentionOfCopy(c);
  for (const auto& [candidate, device] : CandidatesOnDevices<PageAppendOp>({c.dtype, c.dtype_kv})) {
    DeviceCopies on(device);
    SCOPED_TRACE(FieldsText(candidate, c));
    std::mt19937_64 rng(41);
    const AttentionInputs in(a, 42);
    AttentionInputs expected(a, 42);
    NewTokens tokens(a, c.strided);
    tokens.k.FillNormal(rng);
    tokens.v.FillNormal(rng);
    WriteSlots(c, tokens, expected);
    AppendPagedKvCache(on(tokens.k), on(tokens.v), on(tokens.batch_indices()),
                       on(tokens.position_view()), CacheOn(in, on), PagesOn(in, on),
                       {c.k_scale, c.v_scale, Backend(candidate)});
    on.Fetch();
    EXPECT_EQ(in.k_pool.bytes(), expected.k_pool.bytes());
    EXPECT_EQ(in.v_pool.bytes(), expected.v_pool.bytes());
  }
}

TEST_P(PageCopyCaseTest, EveryCandidateGathersWhatIsThere) {
  const PageCopyCase& c = GetParam();
  const AttentionCase a = AttentionOfCopy(c);
  for (const auto& [candidate, device] : CandidatesOnDevices<PageGatherOp>({c.dtype, c.dtype_kv})) {
    DeviceCopies on(device);
    SCOPED_TRACE(FieldsText(candidate, c));
    const AttentionInputs in(a, 43);
    const NewTokens tokens(a, c.strided);
    NewTokens expected(a, c.strided);
    for (int64_t i = 0; i < tokens.size(); ++i) {
      const int32_t b = tokens.requests[static_cast<size_t>(i)];
      const int32_t at = tokens.positions[static_cast<size_t>(i)];
      if (b < 0) continue;
      for (int64_t g = 0; g < 2; ++g) {
        for (int64_t d = 0; d < c.head_dim_k; ++d) {
          expected.k.Set({i, g, d}, in.Key(b, at, g, d) * c.k_scale);
        }
        for (int64_t d = 0; d < c.head_dim_v; ++d) {
          expected.v.Set({i, g, d}, in.Value(b, at, g, d) * c.v_scale);
        }
      }
    }
    GatherPagedKvCache(CacheOn(in, on), PagesOn(in, on), on(tokens.batch_indices()),
                       on(tokens.position_view()), on(tokens.k), on(tokens.v),
                       {c.k_scale, c.v_scale, Backend(candidate)});
    on.Fetch();
    EXPECT_EQ(tokens.k.bytes(), expected.k.bytes());
    EXPECT_EQ(tokens.v.bytes(), expected.v.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, PageCopyCaseTest, ::testing::ValuesIn(PageCopyCases()));

TEST(PageCopy, LatentCachesAreThoseOfOneHead) {
  for (int64_t dim_kpe : {0, 8, 64}) {
    const std::vector<int32_t> indptr{0, 1, 3};
    const std::vector<int32_t> indices{4, 0, 2};
    const std::vector<int32_t> last{2, 3};
    const std::vector<int32_t> requests{0, 0, 1, 1, -1};
    const std::vector<int32_t> positions{0, 1, 2, 6, -1};
    const auto view = [](const std::vector<int32_t>& x) {
      return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
    };
    const PageTable pages{view(indptr), view(indices), view(last)};
    std::mt19937_64 rng(44);
    HostTensor ckv(DType::kBF16, {5, 512});
    HostTensor kpe(DType::kBF16, {5, dim_kpe});
    ckv.FillNormal(rng);
    kpe.FillNormal(rng);
    // Both in one tensor, as engines keep them.
    const int64_t stride = 512 + dim_kpe;
    const HostTensor cache(DType::kBF16, {5, 4, stride});
    const TensorView& whole = cache;
    const TensorView ckv_cache(whole.data(), DType::kBF16, {5, 4, 512}, {4 * stride, stride, 1});
    const TensorView kpe_cache(whole.data_as<uint16_t>() + 512, DType::kBF16, {5, 4, dim_kpe},
                               {4 * stride, stride, 1});
    AppendPagedMlaKvCache(ckv, kpe, view(requests), view(positions), ckv_cache, kpe_cache, pages);
    const std::vector<std::pair<int64_t, int64_t>> slots{{4, 0}, {4, 1}, {0, 2}, {2, 2}};
    int64_t num_written = 0;
    for (double x : cache.Values()) num_written += std::isnan(x) ? 0 : 1;
    EXPECT_EQ(num_written, 4 * stride);
    for (int64_t i = 0; i < 4; ++i) {
      const auto [page, slot] = slots[static_cast<size_t>(i)];
      for (int64_t d = 0; d < stride; ++d) {
        EXPECT_EQ(cache.At({page, slot, d}), d < 512 ? ckv.At({i, d}) : kpe.At({i, d - 512}));
      }
    }
    const HostTensor ckv_back(DType::kF32, {5, 512});
    const HostTensor kpe_back(DType::kF32, {5, dim_kpe});
    GatherPagedMlaKvCache(ckv_cache, kpe_cache, pages, view(requests), view(positions), ckv_back,
                          kpe_back);
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t d = 0; d < stride; ++d) {
        const double back = d < 512 ? ckv_back.At({i, d}) : kpe_back.At({i, d - 512});
        if (i == 4) {
          EXPECT_TRUE(std::isnan(back));
        } else {
          EXPECT_EQ(back, d < 512 ? ckv.At({i, d}) : kpe.At({i, d - 512}));
        }
      }
    }
  }
}

TEST(PageCopy, ManyTokens) {
  for (int64_t num_tokens : {70000, 200000}) {
    const HostTensor rows(DType::kF16, {num_tokens, 1, 8});
    std::vector<int32_t> positions(static_cast<size_t>(num_tokens));
    std::vector<int32_t> indices(positions.size());
    for (size_t i = 0; i < positions.size(); ++i) {
      positions[i] = static_cast<int32_t>(i);
      indices[i] = static_cast<int32_t>(positions.size() - 1 - i);
      for (int64_t d = 0; d < 8; ++d) {
        rows.view().data_as<uint16_t>()[8 * i + static_cast<size_t>(d)] =
            static_cast<uint16_t>(i % 30000);
      }
    }
    const std::vector<int32_t> requests(positions.size(), 0);
    const std::vector<int32_t> indptr{0, static_cast<int32_t>(num_tokens)};
    const std::vector<int32_t> last{1};
    const HostTensor cache(DType::kF16, {num_tokens, 1, 1, 8});
    const auto view = [](const std::vector<int32_t>& x) {
      return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
    };
    AppendPagedKvCache(rows, rows, view(requests), view(positions), {cache, cache},
                       {view(indptr), view(indices), view(last)});
    for (int64_t i = 0; i < num_tokens; ++i) {
      ASSERT_EQ(cache.view().data_as<uint16_t>()[8 * (num_tokens - 1 - i) + 7], i % 30000);
    }
  }
}

TEST(PageCopy, OffsetsBeyond32Bits) {
  // Pages 3 GB apart: only those that are touched take memory.
  constexpr int64_t kPageStride = int64_t{3} << 30;
  void* memory = mmap(nullptr, 3 * kPageStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const TensorView cache(memory, DType::kF16, {3, 1, 1, 8}, {kPageStride / 2, 8, 8, 1});
  HostTensor rows(DType::kF16, {3, 1, 8});
  std::mt19937_64 rng(45);
  rows.FillNormal(rng);
  const std::vector<int32_t> three{0, 1, 2};
  const std::vector<int32_t> zeros{0, 0, 0};
  const std::vector<int32_t> indptr{0, 3};
  const std::vector<int32_t> last{1};
  const auto view = [](const std::vector<int32_t>& x) {
    return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
  };
  const PageTable pages{view(indptr), view(three), view(last)};
  AppendPagedKvCache(rows, rows, view(zeros), view(three), {cache, cache}, pages);
  const HostTensor back(DType::kF16, {3, 1, 8});
  const HostTensor same(DType::kF16, {3, 1, 8});
  GatherPagedKvCache({cache, cache}, pages, view(zeros), view(three), back, same);
  EXPECT_EQ(back.bytes(), rows.bytes());
  EXPECT_EQ(same.bytes(), rows.bytes());
  munmap(memory, 3 * kPageStride);
}

TEST(PageCopy, ErrorsComeBeforeAnythingIsWritten) {
  const AttentionCase c{
      AttentionOf(DType::kF32, DType::kF32, DType::kF32, 2, 2, 16, 16, 4), {2, 2}, {6, 2}};
  AttentionInputs in(c, 44);
  NewTokens tokens(c, false);
  tokens.k.Fill(1);
  tokens.v.Fill(1);
  const HostTensor::Bytes before = in.k_pool.bytes();
  const auto append_with = [&](const PageCopyOptions& options) {
    return [&, options] {
      AppendPagedKvCache(tokens.k, tokens.v, tokens.batch_indices(), tokens.position_view(),
                         in.cache(), in.pages(), options);
    };
  };
  const auto append = append_with({});
  tokens.positions[1] = 6;
  EXPECT_THAT(append, ThrowsMessage<Error>("positions[1]: is 6, request 0 has kv_len 6"));
  tokens.positions[1] = -1;
  EXPECT_THAT(append, ThrowsMessage<Error>("positions[1]: is -1, request 0 has kv_len 6"));
  tokens.positions[1] = 5;
  tokens.requests[4] = 2;
  EXPECT_THAT(append, ThrowsMessage<Error>("batch_indices[4]: is 2, accepted: up to 1, or negative "
                                           "to leave it out"));
  tokens.requests[4] = 1;
  EXPECT_THAT(append_with({.k_scale = 2}),
              ThrowsMessage<Error>("k_scale: is 2, accepted from f32 to a cache of f32: 1"));
  EXPECT_THAT(append_with({.v_scale = 0}),
              ThrowsMessage<Error>("v_scale: is 0, expected a number above 0"));
  for (int32_t wrong : {0, 5}) {
    in.last_page_len[0] = wrong;
    EXPECT_THAT(append, ThrowsMessage<Error>(HasSubstr("accepted: 1 to page_size, 4")));
  }
  in.last_page_len[0] = 2;
  in.indices[1] = -1;
  EXPECT_THAT(append, ThrowsMessage<Error>(HasSubstr("indices[1]: is -1, the cache has pages 0")));
  EXPECT_EQ(in.k_pool.bytes(), before);
}

}  // namespace
}  // namespace flashinfer::test
