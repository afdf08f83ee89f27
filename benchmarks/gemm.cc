// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: bound by the multipliers.
#include "ops/gemm.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/gemm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16 m=512 n=512 k=512",
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16 m=2048 n=2048 k=2048",
    "dtype_a=f32 dtype_b=f32 dtype_out=f32 m=512 n=512 k=512",
    "dtype_a=f32 dtype_b=f32 dtype_out=f32 m=2048 n=2048 k=2048",
    "dtype_a=f16 dtype_b=f16 dtype_out=f16 m=2048 n=2048 k=2048",
    "dtype_a=e4m3 dtype_b=e4m3 dtype_out=bf16 m=2048 n=2048 k=2048 a_scale=0.5",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::GemmCase>(SplitWords(text));
  std::mt19937_64 rng(1);
  test::HostTensor a(c.dtype_a, {c.m, c.k});
  test::HostTensor b(c.dtype_b, {c.n, c.k});
  a.FillNormal(rng);
  b.FillNormal(rng);
  test::HostTensor out(c.dtype_out, {c.m, c.n});
  harness.Measure(
      {.text = text,
       .backend =
           ChosenCandidate<GemmOp>(harness, {c.dtype_a, c.dtype_b, c.dtype_out, c.m, c.n, c.k}),
       .bytes = static_cast<double>((c.m + c.n) * c.k * SizeBytes(c.dtype_a) +
                                    c.m * c.n * SizeBytes(c.dtype_out)),
       .flops = 2.0 * static_cast<double>(c.m * c.n * c.k),
       .math = c.dtype_a == DType::kF32 || c.dtype_a == DType::kF16 ? Math::kF32 : Math::kBF16},
      [&](int64_t) {
        Gemm(on(a), on(b), on(out), {.a_scale = c.a_scale, .b_scale = c.b_scale}, harness.stream());
      });
}

}  // namespace

OpBenchmark GemmBenchmark() { return {"gemm", kCases, Run}; }

}  // namespace flashinfer::bench
