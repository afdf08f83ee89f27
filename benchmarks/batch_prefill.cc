// SPDX-License-Identifier: Apache-2.0
// Batch prefill, causal: bound by multiplication.
#include "flashinfer/attention/prefill.h"

#include "attention_batch.h"
#include "op_benchmarks.h"
#include "ops/batch_prefill.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_kv=bf16 q_len=2048 kv_len=2048",
    "dtype=f32 dtype_kv=f32 q_len=2048 kv_len=2048",
    "dtype=f32 dtype_kv=f16 q_len=512 kv_len=512 num_qo_heads=9 num_kv_heads=3 head_dim=64",
    "dtype=f32 dtype_kv=f16 q_len=512 kv_len=2048 num_qo_heads=9 num_kv_heads=3 head_dim=64",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<AttentionCase>(SplitWords(text));
  // Query i of q_len sees kv_len - q_len + i + 1 keys.
  const double pairs = static_cast<double>(c.num_requests) * static_cast<double>(c.q_len) *
                       (static_cast<double>(c.kv_len) - static_cast<double>(c.q_len - 1) / 2);
  const AttentionBatch batch(c, 1);
  const AttentionProblem problem{.dtype_q = c.dtype,
                                 .dtype_kv = c.dtype_kv,
                                 .dtype_out = c.dtype,
                                 .num_qo_heads = static_cast<int32_t>(c.num_qo_heads),
                                 .num_kv_heads = static_cast<int32_t>(c.num_kv_heads),
                                 .head_dim_qk = static_cast<int32_t>(c.head_dim),
                                 .head_dim_vo = static_cast<int32_t>(c.head_dim),
                                 .page_size = static_cast<int32_t>(c.page_size),
                                 .mask = MaskMode::kCausal};
  Workspace workspace(harness.device());
  BatchPrefill prefill(workspace);
  prefill.Plan(problem, batch.qo_indptr(), batch.pages(0, on), {}, {}, harness.stream());
  const bool is_bf16 = c.dtype == DType::kBF16 && c.dtype_kv == DType::kBF16;
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<BatchPrefillOp>(harness, problem),
                   .flops = 4.0 * pairs * static_cast<double>(c.num_qo_heads * c.head_dim),
                   .math = is_bf16 ? Math::kBF16 : Math::kF32},
                  [&](int64_t) {
                    prefill.Run(on(batch.q()), batch.cache(on), on(batch.out()), {}, {},
                                harness.stream());
                  });
}

}  // namespace

OpBenchmark BatchPrefillBenchmark() { return {"batch_prefill", kCases, Run}; }

}  // namespace flashinfer::bench
