// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: bound by the multipliers.
#include "ops/gemm.h"

#include <random>

#include "core/fields.h"
#include "dispatch/choose.h"
#include "harness.h"
#include "support/cases/gemm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_out=bf16 m=512 n=512 k=512",
    "dtype=bf16 dtype_out=bf16 m=2048 n=2048 k=2048",
    "dtype=f32 dtype_out=f32 m=512 n=512 k=512",
    "dtype=f32 dtype_out=f32 m=2048 n=2048 k=2048",
};

void Run(Harness& harness, const std::string& text) {
  const auto c = ParseFields<test::GemmCase>(SplitWords(text));
  std::mt19937_64 rng(1);
  test::HostTensor a(c.dtype, {c.m, c.k});
  test::HostTensor b(c.dtype, {c.n, c.k});
  a.FillNormal(rng);
  b.FillNormal(rng);
  test::HostTensor out(c.dtype_out, {c.m, c.n});
  const auto explanation = ExplainOp<GemmOp>({c.dtype, c.dtype_out, c.m, c.n, c.k});
  harness.Measure({.text = text,
                   .backend = explanation.chosen()->candidate,
                   .bytes = static_cast<double>((c.m + c.n) * c.k * SizeBytes(c.dtype) +
                                                c.m * c.n * SizeBytes(c.dtype_out)),
                   .flops = 2.0 * static_cast<double>(c.m * c.n * c.k),
                   .math = c.dtype == DType::kBF16 ? Math::kBF16 : Math::kF32},
                  [&](int64_t) { Gemm(a, b, out); });
}

}  // namespace
}  // namespace flashinfer::bench

int main(int argc, char** argv) {
  using namespace flashinfer::bench;
  Harness harness("gemm", argc, argv);
  for (const std::string& text : harness.Cases(kCases)) Run(harness, text);
}
