// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows, as many in each: bound by reading the groups' matrices with few rows.
#include "ops/grouped_gemm.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/grouped_gemm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16 num_groups=8 num_rows=4 n=2048 k=2048",
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16 num_groups=8 num_rows=64 n=2048 k=2048",
    "dtype_a=e4m3 dtype_b=e4m3 dtype_out=bf16 num_groups=8 num_rows=64 n=2048 k=2048 has_scales=1",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::GroupedGemmCase>(SplitWords(text));
  const int64_t num_rows = c.num_groups * c.num_rows;
  std::mt19937_64 rng(1);
  test::HostTensor a(c.dtype_a, {num_rows, c.k});
  test::HostTensor b(c.dtype_b, {c.num_groups, c.n, c.k});
  a.FillNormal(rng);
  b.Fill(0.5);
  test::HostTensor indptr(DType::kI32, {c.num_groups + 1});
  for (int64_t i = 0; i <= c.num_groups; ++i) indptr.Set({i}, static_cast<double>(i * c.num_rows));
  const int64_t k_blocks = (c.k + c.k_per_scale - 1) / c.k_per_scale;
  test::HostTensor a_scales(DType::kF32, {num_rows, k_blocks});
  test::HostTensor b_scales(DType::kF32,
                            {c.num_groups, (c.n + c.n_per_scale - 1) / c.n_per_scale, k_blocks});
  a_scales.Fill(0.5);
  b_scales.Fill(0.5);
  GroupedGemmOptions options;
  if (c.has_scales) options.scales = {.a = on(a_scales), .b = on(b_scales)};
  const test::HostTensor out(c.dtype_out, {num_rows, c.n});
  harness.Measure(
      {.text = text,
       .backend = ChosenCandidate<GroupedGemmOp>(
           harness, {c.dtype_a, c.dtype_b, c.dtype_out, c.has_scales, c.n, c.k}),
       .bytes = static_cast<double>(c.num_groups * c.n * c.k * SizeBytes(c.dtype_b) +
                                    num_rows * c.k * SizeBytes(c.dtype_a) +
                                    num_rows * c.n * SizeBytes(c.dtype_out)),
       .written = static_cast<double>(num_rows * c.n * SizeBytes(c.dtype_out)),
       .flops = 2.0 * static_cast<double>(num_rows * c.n * c.k),
       .math = c.dtype_a == DType::kBF16 ? Math::kBF16 : Math::kF32},
      [&](int64_t) { GroupedGemm(on(a), on(b), on(indptr), on(out), options, harness.stream()); });
}

}  // namespace

OpBenchmark GroupedGemmBenchmark() { return {"grouped_gemm", kCases, Run}; }

}  // namespace flashinfer::bench
