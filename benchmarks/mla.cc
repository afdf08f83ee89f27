// SPDX-License-Identifier: Apache-2.0
// Latent attention: bound by multiplication, but for the fewest heads.
#include "flashinfer/attention/mla.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "ops/mla.h"
#include "paged_batch.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

struct MlaCase {
  DType dtype = DType::kBF16;     ///< of queries and outputs
  DType dtype_kv = DType::kBF16;  ///< of the cache
  int64_t num_requests = 1;
  int64_t q_len = 1;
  int64_t kv_len = 8192;
  int64_t num_heads = 128;
  int64_t page_size = 64;
};

template <FieldsOf<MlaCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(num_requests)
  FLASHINFER_NAMED(q_len)
  FLASHINFER_NAMED(kv_len)
  FLASHINFER_NAMED(num_heads)
  FLASHINFER_NAMED(page_size)
}

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_kv=bf16 kv_len=8192 num_heads=128",
    "dtype=bf16 dtype_kv=bf16 kv_len=8192 num_heads=16",
    "dtype=bf16 dtype_kv=bf16 num_requests=16 kv_len=1024 num_heads=16",
    "dtype=bf16 dtype_kv=e4m3 kv_len=8192 num_heads=128",
    "dtype=f32 dtype_kv=f32 kv_len=8192 num_heads=128",
    "dtype=f32 dtype_kv=f16 kv_len=8192 num_heads=16",
    "dtype=bf16 dtype_kv=bf16 q_len=512 kv_len=512 num_heads=16",
};

constexpr int64_t kDimCkv = 512;
constexpr int64_t kDimKpe = 64;

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<MlaCase>(SplitWords(text));
  const double tokens = static_cast<double>(c.num_requests * c.kv_len);
  const double bytes = tokens * (kDimCkv + kDimKpe) * static_cast<double>(SizeBytes(c.dtype_kv));
  const bool causal = c.q_len > 1;
  const double pairs =
      static_cast<double>(c.num_requests * c.q_len) *
      (static_cast<double>(c.kv_len) - static_cast<double>(causal ? c.q_len - 1 : 0) / 2);
  const double flops = 2.0 * pairs * static_cast<double>(c.num_heads) * (2 * kDimCkv + kDimKpe);
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  const PagedBatch batch({c.num_requests, c.q_len, c.kv_len, c.page_size}, num_copies, rng);
  const PagedCache ckv(c.dtype_kv, {batch.num_pages(), c.page_size, kDimCkv}, rng);
  const PagedCache kpe(c.dtype_kv, {batch.num_pages(), c.page_size, kDimKpe}, rng);
  const int64_t rows = c.num_requests * c.q_len;
  test::HostTensor q_nope(c.dtype, {rows, c.num_heads, kDimCkv});
  test::HostTensor q_pe(c.dtype, {rows, c.num_heads, kDimKpe});
  const test::HostTensor out(c.dtype, {rows, c.num_heads, kDimCkv});
  q_nope.FillNormal(rng);
  q_pe.FillNormal(rng);
  MlaProblem problem;
  problem.dtype_q = problem.dtype_out = c.dtype;
  problem.dtype_kv = c.dtype_kv;
  problem.num_heads = static_cast<int32_t>(c.num_heads);
  problem.page_size = static_cast<int32_t>(c.page_size);
  problem.causal = causal;
  problem.sm_scale = 0.0722f;  // 1 / sqrt(128 + 64)
  Workspace workspace(harness.device());
  std::vector<BatchMla> plans;
  plans.reserve(static_cast<size_t>(num_copies));
  for (int64_t i = 0; i < num_copies; ++i) {
    plans.emplace_back(workspace).Plan(problem, batch.qo_indptr(),
                                       {batch.indptr(), on(batch.indices(i)), batch.kv_len()}, {},
                                       harness.stream());
  }
  const bool multiplies_bf16 = c.dtype == DType::kBF16 && c.dtype_kv != DType::kF16;
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<MlaOp>(harness, problem),
                   .bytes = bytes,
                   .flops = flops,
                   .math = multiplies_bf16 ? Math::kBF16 : Math::kF32},
                  [&](int64_t i) {
                    plans[static_cast<size_t>(i % num_copies)].Run(on(q_nope), on(q_pe),
                                                                   {on(ckv.view()), on(kpe.view())},
                                                                   on(out), {}, harness.stream());
                  });
}

}  // namespace

OpBenchmark MlaBenchmark() { return {"batch_mla", kCases, Run}; }

}  // namespace flashinfer::bench
