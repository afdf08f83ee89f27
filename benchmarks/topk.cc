// SPDX-License-Identifier: Apache-2.0
// Top-k selection: the floor is reading the rows once.
#include "ops/topk.h"

#include <random>
#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/topk.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=f32 num_rows=4 num_cols=131072 k=50 sorted=1",
    "dtype=f32 num_rows=4 num_cols=131072 k=2048 sorted=0",
    "dtype=bf16 num_rows=64 num_cols=65536 k=1024 sorted=0",
    "dtype=f32 num_rows=256 num_cols=4096 k=8 sorted=1",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::TopKCase>(SplitWords(text));
  const double bytes = static_cast<double>(c.num_rows * c.num_cols * SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::mt19937_64 rng(1);
  std::vector<test::HostTensor> inputs;
  inputs.reserve(static_cast<size_t>(num_copies));
  inputs.emplace_back(c.dtype, Dims{c.num_rows, c.num_cols}).FillNormal(rng, 3.0);
  for (int64_t i = 1; i < num_copies; ++i) inputs.push_back(inputs[0].Clone());
  const test::HostTensor values(c.dtype, {c.num_rows, c.k});
  const test::HostTensor indices(DType::kI64, {c.num_rows, c.k});
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<TopKOp>(harness, {c.dtype, c.num_cols}),
                   .bytes = bytes},
                  [&](int64_t i) {
                    TopK(on(inputs[static_cast<size_t>(i % num_copies)]), on(values), on(indices),
                         {.sorted = c.sorted}, harness.stream());
                  });
}

}  // namespace

OpBenchmark TopKBenchmark() { return {"topk", kCases, Run}; }

}  // namespace flashinfer::bench
