// SPDX-License-Identifier: Apache-2.0
// Batch decode: bound by reading the cache.
#include "flashinfer/attention/decode.h"

#include "attention_batch.h"
#include "op_benchmarks.h"
#include "ops/batch_decode.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_kv=bf16 kv_len=8192",
    "dtype=bf16 dtype_kv=bf16 kv_len=32768",
    "dtype=f32 dtype_kv=f32 kv_len=8192",
    "dtype=f32 dtype_kv=f32 kv_len=32768",
    "dtype=f32 dtype_kv=f16 kv_len=512 num_qo_heads=9 num_kv_heads=3 head_dim=64",
    "dtype=f32 dtype_kv=f16 kv_len=2048 num_qo_heads=9 num_kv_heads=3 head_dim=64",
    "dtype=f32 dtype_kv=f16 num_requests=16 kv_len=512 num_qo_heads=9 num_kv_heads=3 head_dim=64",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<AttentionCase>(SplitWords(text));
  const double tokens = static_cast<double>(c.num_requests * c.kv_len);
  const double bytes = 2.0 * tokens * static_cast<double>(c.num_kv_heads * c.head_dim) *
                       static_cast<double>(SizeBytes(c.dtype_kv));
  const double flops = 4.0 * tokens * static_cast<double>(c.num_qo_heads * c.head_dim);
  const int64_t num_copies = harness.NumColdCopies(bytes);
  const AttentionBatch batch(c, num_copies);
  const AttentionProblem problem{.dtype_q = c.dtype,
                                 .dtype_kv = c.dtype_kv,
                                 .dtype_out = c.dtype,
                                 .num_qo_heads = static_cast<int32_t>(c.num_qo_heads),
                                 .num_kv_heads = static_cast<int32_t>(c.num_kv_heads),
                                 .head_dim_qk = static_cast<int32_t>(c.head_dim),
                                 .head_dim_vo = static_cast<int32_t>(c.head_dim),
                                 .page_size = static_cast<int32_t>(c.page_size)};
  Workspace workspace(harness.device());
  std::vector<BatchDecode> decodes;
  for (int64_t i = 0; i < num_copies; ++i) {
    decodes.emplace_back(workspace).Plan(problem, batch.pages(i, on), {}, harness.stream());
  }
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<BatchDecodeOp>(harness, problem),
                   .bytes = bytes,
                   .flops = flops,
                   .math = c.dtype_kv == DType::kBF16 ? Math::kBF16 : Math::kF32},
                  [&](int64_t i) {
                    decodes[static_cast<size_t>(i % num_copies)].Run(
                        on(batch.q()), batch.cache(on), on(batch.out()), {}, {}, harness.stream());
                  });
}

}  // namespace

OpBenchmark BatchDecodeBenchmark() { return {"batch_decode", kCases, Run}; }

}  // namespace flashinfer::bench
