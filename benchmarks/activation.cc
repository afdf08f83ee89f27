// SPDX-License-Identifier: Apache-2.0
// Gated activations: bound by reading both halves and writing one.
#include "ops/activation.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/activation.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_out=bf16 num_tokens=1 size=14336",
    "dtype=bf16 dtype_out=bf16 num_tokens=512 size=14336",
    "dtype=f32 dtype_out=f32 num_tokens=512 size=14336",
    "dtype=f32 dtype_out=f32 num_tokens=512 size=1536",
    "dtype=bf16 dtype_out=e4m3 num_tokens=512 size=14336",
    "kind=gelu dtype=bf16 dtype_out=bf16 num_tokens=512 size=14336",
    "kind=gelu_tanh dtype=bf16 dtype_out=bf16 num_tokens=512 size=14336",
};

void Run(Harness& harness, const std::string& text) {
  const auto c = ParseFields<test::ActivationCase>(SplitWords(text));
  const auto elements = static_cast<double>(c.num_tokens * c.size);
  const double written = elements * static_cast<double>(SizeBytes(c.dtype_out));
  const double bytes = written + elements * static_cast<double>(2 * SizeBytes(c.dtype));
  const auto activate = c.kind == ActivationKind::kSilu   ? SiluAndMul
                        : c.kind == ActivationKind::kGelu ? GeluAndMul
                                                          : GeluTanhAndMul;
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::vector<test::HostTensor> xs;
  std::vector<test::HostTensor> outs;
  for (int64_t i = 0; i < num_copies; ++i) {
    xs.emplace_back(c.dtype, Dims{c.num_tokens, 2 * c.size}).Fill(0.5);
    outs.emplace_back(c.dtype_out, Dims{c.num_tokens, c.size});
  }
  const std::vector<TensorView> x_views = harness.On(xs);
  const std::vector<TensorView> out_views = harness.On(outs);
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<ActivationOp>(harness, ProblemOf(c)),
                   .bytes = bytes,
                   .written = written},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    activate(x_views[copy], out_views[copy], {}, harness.stream());
                  });
}

}  // namespace

OpBenchmark ActivationBenchmark() { return {"activation", kCases, Run}; }

}  // namespace flashinfer::bench
