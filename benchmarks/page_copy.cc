// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache: bound by reading rows and writing them to their slots.
#include "flashinfer/page.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "ops/page_copy.h"
#include "support/cases/page_copy.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

constexpr int64_t kNumTokens = 2048;
constexpr int64_t kNumKvHeads = 8;

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_kv=bf16 page_size=1 head_dim_k=128 head_dim_v=128",
    "dtype=bf16 dtype_kv=bf16 page_size=16 head_dim_k=128 head_dim_v=128",
    "dtype=bf16 dtype_kv=bf16 hnd=1 page_size=16 head_dim_k=128 head_dim_v=128",
    "dtype=bf16 dtype_kv=e4m3 page_size=16 head_dim_k=128 head_dim_v=128",
};

/// 2048 tokens of one request, on shuffled pages.
void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::PageCopyCase>(SplitWords(text));
  const double elements = static_cast<double>(kNumTokens * kNumKvHeads) *
                          static_cast<double>(c.head_dim_k + c.head_dim_v);
  const double bytes = elements * static_cast<double>(SizeBytes(c.dtype) + SizeBytes(c.dtype_kv));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  const int64_t num_pages = (kNumTokens + c.page_size - 1) / c.page_size;
  const auto pool = [&](int64_t dim) {
    const int64_t heads = c.hnd ? c.page_size : kNumKvHeads;
    const int64_t tokens = c.hnd ? kNumKvHeads : c.page_size;
    return test::HostTensor(c.dtype_kv, {num_copies * num_pages, tokens, heads, dim});
  };
  const test::HostTensor k_pool = pool(c.head_dim_k);
  const test::HostTensor v_pool = pool(c.head_dim_v);
  std::vector<test::HostTensor> ks;
  std::vector<test::HostTensor> vs;
  ks.reserve(static_cast<size_t>(num_copies));
  vs.reserve(static_cast<size_t>(num_copies));
  for (int64_t i = 0; i < num_copies; ++i) {
    ks.emplace_back(c.dtype, Dims{kNumTokens, kNumKvHeads, c.head_dim_k}).Fill(0.5);
    vs.emplace_back(c.dtype, Dims{kNumTokens, kNumKvHeads, c.head_dim_v}).Fill(0.5);
  }
  std::vector<int32_t> indices(static_cast<size_t>(num_copies * num_pages));
  std::iota(indices.begin(), indices.end(), 0);
  std::mt19937_64 rng(1);
  std::shuffle(indices.begin(), indices.end(), rng);
  const std::vector<int32_t> indptr{0, static_cast<int32_t>(num_pages)};
  const std::vector<int32_t> last{static_cast<int32_t>(kNumTokens - (num_pages - 1) * c.page_size)};
  const std::vector<int32_t> requests(kNumTokens, 0);
  std::vector<int32_t> positions(kNumTokens);
  std::iota(positions.begin(), positions.end(), 0);
  const auto view = [](const int32_t* x, int64_t size) {
    return TensorView(x, DType::kI32, {size});
  };
  harness.Measure(
      {.text = text,
       .backend =
           ChosenCandidate<PageAppendOp>(harness, {.dtype = c.dtype, .dtype_kv = c.dtype_kv}),
       .bytes = bytes,
       .written = elements * static_cast<double>(SizeBytes(c.dtype_kv))},
      [&](int64_t i) {
        const int64_t copy = i % num_copies;
        AppendPagedKvCache(
            on(ks[static_cast<size_t>(copy)]), on(vs[static_cast<size_t>(copy)]),
            on(view(requests.data(), kNumTokens)), on(view(positions.data(), kNumTokens)),
            {on(k_pool), on(v_pool), c.hnd ? KvLayout::kHND : KvLayout::kNHD},
            {on(view(indptr.data(), 2)), on(view(indices.data() + copy * num_pages, num_pages)),
             view(last.data(), 1)},
            {}, harness.stream());
      });
}

}  // namespace

OpBenchmark PageAppendBenchmark() { return {"append_paged_kv_cache", kCases, Run}; }

}  // namespace flashinfer::bench
