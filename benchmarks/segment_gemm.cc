// SPDX-License-Identifier: Apache-2.0
// Products of row segments (LoRA): bound by reading the weights with few rows.
#include "ops/segment_gemm.h"

#include <random>
#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/segment_gemm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_out=bf16 num_segments=16 num_rows=1 num_weights=16 d_in=4096 d_out=16",
    "dtype=bf16 dtype_out=bf16 num_segments=16 num_rows=1 num_weights=16 d_in=16 d_out=4096",
    "dtype=bf16 dtype_out=bf16 num_segments=4 num_rows=256 num_weights=4 d_in=4096 d_out=64",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::SegmentGemmCase>(SplitWords(text));
  const int64_t num_rows = c.num_segments * c.num_rows;
  std::mt19937_64 rng(1);
  test::HostTensor x(c.dtype, {num_rows, c.d_in});
  test::HostTensor weights(c.dtype, {c.num_weights, c.d_out, c.d_in});
  x.FillNormal(rng);
  weights.FillNormal(rng);
  test::HostTensor indptr(DType::kI64, {c.num_segments + 1});
  test::HostTensor indices(DType::kI64, {c.num_segments});
  indptr.Set({0}, 0);
  for (int64_t i = 0; i < c.num_segments; ++i) {
    indptr.Set({i + 1}, static_cast<double>((i + 1) * c.num_rows));
    indices.Set({i}, static_cast<double>(i % c.num_weights));
  }
  const test::HostTensor out(c.dtype_out, {num_rows, c.d_out});
  const int64_t used = std::min(c.num_weights, c.num_segments);
  harness.Measure(
      {.text = text,
       .backend = ChosenCandidate<SegmentGemmOp>(harness, {c.dtype, c.dtype_out, c.d_in, c.d_out}),
       .bytes =
           static_cast<double>((used * c.d_in * c.d_out + num_rows * c.d_in) * SizeBytes(c.dtype) +
                               num_rows * c.d_out * SizeBytes(c.dtype_out)),
       .flops = 2.0 * static_cast<double>(num_rows * c.d_in * c.d_out),
       .math = c.dtype == DType::kBF16 ? Math::kBF16 : Math::kF32},
      [&](int64_t) {
        SegmentGemm(on(x), on(weights), on(indptr), on(out), {.weight_indices = on(indices)},
                    harness.stream());
      });
}

}  // namespace

OpBenchmark SegmentGemmBenchmark() { return {"segment_gemm", kCases, Run}; }

}  // namespace flashinfer::bench
