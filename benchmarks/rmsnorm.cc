// SPDX-License-Identifier: Apache-2.0
// RMSNorm: bound by reading x and writing out.
#include "ops/rmsnorm.h"

#include <random>

#include "core/fields.h"
#include "dispatch/choose.h"
#include "harness.h"
#include "support/cases/rmsnorm.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_weight=bf16 num_rows=1 hidden_size=4096",
    "dtype=bf16 dtype_weight=bf16 num_rows=512 hidden_size=4096",
    "dtype=f32 dtype_weight=f32 num_rows=512 hidden_size=4096",
    "dtype=f16 dtype_weight=f16 num_rows=2048 hidden_size=576",
};

void Run(Harness& harness, const std::string& text) {
  const auto c = ParseFields<test::RmsNormCase>(SplitWords(text));
  const double bytes = 2.0 * static_cast<double>(c.num_rows * c.hidden_size * SizeBytes(c.dtype));
  const int64_t num_copies = NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  test::HostTensor weight(c.dtype_weight, {c.hidden_size});
  weight.FillNormal(rng);
  std::vector<test::HostTensor> xs;
  std::vector<test::HostTensor> outs;
  for (int64_t i = 0; i < num_copies; ++i) {
    xs.emplace_back(c.dtype, Dims{c.num_rows, c.hidden_size}).Fill(0.5);
    outs.emplace_back(c.dtype, Dims{c.num_rows, c.hidden_size});
  }
  const auto explanation = ExplainOp<RmsNormOp>({c.dtype, c.dtype_weight, c.hidden_size});
  harness.Measure({.text = text, .backend = explanation.chosen()->candidate, .bytes = bytes},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    RmsNorm(xs[copy], weight, outs[copy]);
                  });
}

}  // namespace
}  // namespace flashinfer::bench

int main(int argc, char** argv) {
  using namespace flashinfer::bench;
  Harness harness("rmsnorm", argc, argv);
  for (const std::string& text : harness.Cases(kCases)) Run(harness, text);
}
