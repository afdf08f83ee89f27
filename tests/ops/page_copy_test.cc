// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache and gathering from it: every slot right, nothing else touched,
// errors before any write.
#include "ops/page_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>

#include "support/attention_oracle.h"
#include "support/cases/attention.h"
#include "support/cases/page_copy.h"
#include "support/checks/page_copy.h"
#include "support/compare.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class PageCopyCaseTest : public ::testing::TestWithParam<PageCopyCase> {};

TEST_P(PageCopyCaseTest, EveryCandidateFillsTheSlotsAndNothingElse) {
  ExpectCaseHolds(CheckPageAppend, GetParam());
}

TEST_P(PageCopyCaseTest, EveryCandidateGathersWhatIsThere) {
  ExpectCaseHolds(CheckPageGather, GetParam());
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
  PageCopyTokens tokens(c, false);
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
