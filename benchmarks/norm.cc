// SPDX-License-Identifier: Apache-2.0
// The norms: bound by reading x, and the residual, and writing them and out.
#include "ops/norm.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/norm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_weight=bf16 dtype_out=bf16 num_rows=1 hidden_size=4096",
    "dtype=bf16 dtype_weight=bf16 dtype_out=bf16 num_rows=512 hidden_size=4096",
    "dtype=f32 dtype_weight=f32 dtype_out=f32 num_rows=512 hidden_size=4096",
    "dtype=f16 dtype_weight=f16 dtype_out=f16 num_rows=2048 hidden_size=576",
    "dtype=bf16 dtype_weight=bf16 dtype_out=e4m3 num_rows=512 hidden_size=4096",
    "adds_residual=1 dtype=bf16 dtype_weight=bf16 dtype_out=bf16 num_rows=512 hidden_size=4096",
    "kind=gemma dtype=bf16 dtype_weight=bf16 dtype_out=bf16 num_rows=512 hidden_size=4096",
    "kind=layer dtype=bf16 dtype_weight=bf16 dtype_out=bf16 num_rows=512 hidden_size=4096",
    "kind=layer dtype=f32 dtype_weight=f32 dtype_out=f32 num_rows=512 hidden_size=4096",
};

void RunNorm(const test::NormCase& c, const TensorView& x, const TensorView& residual,
             const TensorView& weight, const TensorView& out, Stream stream) {
  if (c.kind == NormKind::kLayer) return LayerNorm(x, weight, weight, out, {}, stream);
  const bool is_gemma = c.kind == NormKind::kGemma;
  if (c.adds_residual) {
    return (is_gemma ? GemmaFusedAddRmsNorm : FusedAddRmsNorm)(x, residual, weight, out, {},
                                                               stream);
  }
  (is_gemma ? GemmaRmsNorm : RmsNorm)(x, weight, out, {}, stream);
}

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::NormCase>(SplitWords(text));
  const auto elements = static_cast<double>(c.num_rows * c.hidden_size);
  const int64_t residual_bytes = c.adds_residual ? SizeBytes(c.dtype) : 0;
  const double written = elements * static_cast<double>(residual_bytes + SizeBytes(c.dtype_out));
  const double bytes =
      written + elements * static_cast<double>(residual_bytes + SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  test::HostTensor weight(c.dtype_weight, {c.hidden_size});
  weight.FillNormal(rng);
  const Dims shape{c.num_rows, c.hidden_size};
  std::vector<test::HostTensor> xs;
  std::vector<test::HostTensor> residuals;
  std::vector<test::HostTensor> outs;
  for (int64_t i = 0; i < num_copies; ++i) {
    xs.emplace_back(c.dtype, shape).Fill(0.5);
    if (c.adds_residual) residuals.emplace_back(c.dtype, shape).Fill(0.0);
    outs.emplace_back(c.dtype_out, shape);
  }
  const std::vector<TensorView> x_views = harness.On(xs);
  std::vector<TensorView> residual_views = harness.On(residuals);
  residual_views.resize(x_views.size());
  const std::vector<TensorView> out_views = harness.On(outs);
  const TensorView weight_view = on(weight);
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<NormOp>(harness, ProblemOf(c)),
                   .bytes = bytes,
                   .written = written},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    RunNorm(c, x_views[copy], residual_views[copy], weight_view, out_views[copy],
                            harness.stream());
                  });
}

}  // namespace

OpBenchmark NormBenchmark() { return {"norm", kCases, Run}; }

}  // namespace flashinfer::bench
