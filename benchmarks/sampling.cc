// SPDX-License-Identifier: Apache-2.0
// Sampling from logits, softmax included: the floor is reading the logits once.
#include "ops/sampling.h"

#include <random>
#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/sampling.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=f32 num_rows=4 vocab_size=131072",
    "dtype=f32 num_rows=4 vocab_size=131072 top_p=0.9",
    "dtype=f32 num_rows=4 vocab_size=131072 top_k=50",
    "dtype=f32 num_rows=4 vocab_size=131072 top_k=50 top_p=0.9 min_p=0.05",
    "dtype=f32 num_rows=1 vocab_size=49152 top_p=0.9",
    "dtype=bf16 num_rows=64 vocab_size=131072 top_p=0.9",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::SamplingCase>(SplitWords(text));
  const double bytes = static_cast<double>(c.num_rows * c.vocab_size * SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  std::vector<test::HostTensor> logits;
  logits.reserve(static_cast<size_t>(num_copies));
  logits.emplace_back(c.dtype, Dims{c.num_rows, c.vocab_size}).FillNormal(rng, 3.0);
  for (int64_t i = 1; i < num_copies; ++i) logits.push_back(logits[0].Clone());
  test::HostTensor tokens(DType::kI32, {c.num_rows});
  SamplingOptions options{.temperature = c.temperature,
                          .top_k = c.top_k,
                          .top_p = c.top_p,
                          .min_p = c.min_p,
                          .filter_order = c.joint ? FilterOrder::kJoint : FilterOrder::kTopKFirst};
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<SamplingOp>(harness, {c.dtype, c.vocab_size}),
                   .bytes = bytes},
                  [&](int64_t i) {
                    options.offset = i;
                    SampleFromLogits(on(logits[static_cast<size_t>(i % num_copies)]), on(tokens),
                                     options, {}, harness.stream());
                  });
}

}  // namespace

OpBenchmark SamplingBenchmark() { return {"sampling", kCases, Run}; }

}  // namespace flashinfer::bench
