// SPDX-License-Identifier: Apache-2.0
// RoPE: bound by reading and writing q and k.
#include "ops/rope.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/rope.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_out=bf16 num_tokens=1 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=bf16 dtype_out=bf16 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=bf16 dtype_out=e4m3 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=bf16 has_cache=1 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=f32 dtype_out=f32 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=f32 dtype_out=f32 interleaved=1 num_tokens=512 num_qo_heads=9 num_kv_heads=3",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::RopeCase>(SplitWords(text));
  const int64_t num_elements = c.num_tokens * (c.num_qo_heads + c.num_kv_heads) * c.head_dim;
  const auto written = static_cast<double>(num_elements * SizeBytes(c.dtype_out));
  const double bytes = written + static_cast<double>(num_elements * SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  test::HostTensor pos_ids(DType::kI32, {c.num_tokens});
  for (int64_t i = 0; i < c.num_tokens; ++i) pos_ids.Set({i}, static_cast<double>(i));
  test::HostTensor q_out(c.dtype_out, {c.num_tokens, c.num_qo_heads, c.head_dim});
  test::HostTensor k_out(c.dtype_out, {c.num_tokens, c.num_kv_heads, c.head_dim});
  std::vector<test::HostTensor> qs;
  std::vector<test::HostTensor> ks;
  for (int64_t i = 0; i < num_copies; ++i) {
    qs.emplace_back(c.dtype, Dims{c.num_tokens, c.num_qo_heads, c.head_dim}).Fill(0.5);
    ks.emplace_back(c.dtype, Dims{c.num_tokens, c.num_kv_heads, c.head_dim}).Fill(0.5);
  }
  test::HostTensor cache(DType::kF32, {c.num_tokens, c.head_dim});
  cache.Fill(0.5);
  const bool in_place = c.dtype_out == c.dtype;
  const RopeOptions options{.style = c.interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox,
                            .cos_sin_cache = c.has_cache ? on(cache) : TensorView()};
  const std::vector<TensorView> q_views = harness.On(qs);
  const std::vector<TensorView> k_views = harness.On(ks);
  const TensorView ids = on(pos_ids);
  const TensorView q_out_view = on(q_out);
  const TensorView k_out_view = on(k_out);
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<RopeOp>(harness, ProblemOf(c)),
                   .bytes = bytes,
                   .written = written},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    const TensorView& q = q_views[copy];
                    const TensorView& k = k_views[copy];
                    ApplyRope(q, k, ids, in_place ? q : q_out_view, in_place ? k : k_out_view,
                              options, harness.stream());
                  });
}

}  // namespace

OpBenchmark RopeBenchmark() { return {"rope", kCases, Run}; }

}  // namespace flashinfer::bench
