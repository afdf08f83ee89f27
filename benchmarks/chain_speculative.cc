// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling: reads the probabilities of one position of draft and target.
#include "ops/chain_speculative.h"

#include <random>
#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/chain_speculative.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "num_rows=4 num_drafts=4 vocab_size=131072",
    "num_rows=64 num_drafts=4 vocab_size=32000",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::ChainSpeculativeCase>(SplitWords(text));
  std::mt19937_64 rng(1);
  test::HostTensor draft(DType::kF32, {c.num_rows, c.num_drafts, c.vocab_size});
  test::HostTensor target(DType::kF32, {c.num_rows, c.num_drafts + 1, c.vocab_size});
  draft.FillUniform(rng, 0, 2.0 / static_cast<double>(c.vocab_size));
  target.FillUniform(rng, 0, 2.0 / static_cast<double>(c.vocab_size));
  test::HostTensor drafted(DType::kI32, {c.num_rows, c.num_drafts});
  drafted.FillUniform(rng, 0, static_cast<double>(c.vocab_size - 1));
  const test::HostTensor tokens(DType::kI32, {c.num_rows, c.num_drafts + 1});
  harness.Measure(
      {.text = text,
       .backend = ChosenCandidate<ChainSpeculativeOp>(harness, {DType::kF32, c.vocab_size}),
       .bytes = 8.0 * static_cast<double>(c.num_rows * c.vocab_size)},
      [&](int64_t i) {
        ChainSpeculativeSampling(on(draft), on(drafted), on(target), {on(tokens)}, {.offset = i},
                                 harness.stream());
      });
}

}  // namespace

OpBenchmark ChainSpeculativeBenchmark() { return {"chain_speculative", kCases, Run}; }

}  // namespace flashinfer::bench
