// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking: the floor is reading the rows once and writing them once.
#include "ops/token_filter.h"

#include <cmath>
#include <random>
#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/token_filter.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=f32 from_logits=0 num_rows=4 vocab_size=131072 top_k=50",
    "dtype=f32 from_logits=0 num_rows=4 vocab_size=131072 top_p=0.9",
    "dtype=f32 from_logits=1 num_rows=4 vocab_size=131072 top_k=50",
    "dtype=bf16 from_logits=1 num_rows=64 vocab_size=131072 top_k=50",
};

void RunFilter(const test::TokenFilterCase& c, const TensorView& rows, const TensorView& out,
               Stream stream) {
  if (c.from_logits) return TopKMaskLogits(rows, out, c.top_k, {}, stream);
  if (c.top_p < 1) return TopPRenormProbs(rows, out, c.top_p, {}, stream);
  TopKRenormProbs(rows, out, c.top_k, {}, stream);
}

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::TokenFilterCase>(SplitWords(text));
  const double bytes = 2 * static_cast<double>(c.num_rows * c.vocab_size * SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  std::vector<test::HostTensor> rows;
  std::vector<test::HostTensor> out;
  const Dims shape{c.num_rows, c.vocab_size};
  rows.reserve(static_cast<size_t>(num_copies));
  test::HostTensor& first = rows.emplace_back(c.dtype, shape).FillNormal(rng, 3.0);
  for (int64_t row = 0; row < c.num_rows && !c.from_logits; ++row) {
    for (int64_t v = 0; v < c.vocab_size; ++v) first.Set({row, v}, std::exp(first.At({row, v})));
  }
  for (int64_t i = 0; i < num_copies; ++i) {
    out.emplace_back(c.dtype, shape);
    if (i > 0) rows.push_back(rows[0].Clone());
  }
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<TokenFilterOp>(harness, {c.dtype, c.vocab_size}),
                   .bytes = bytes,
                   .written = bytes / 2},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    RunFilter(c, on(rows[copy]), on(out[copy]), harness.stream());
                  });
}

}  // namespace

OpBenchmark TokenFilterBenchmark() { return {"token_filter", kCases, Run}; }

}  // namespace flashinfer::bench
