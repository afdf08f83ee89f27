// SPDX-License-Identifier: Apache-2.0
// Merging attention states: bound by reading them.
#include "ops/merge_states.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/merge_states.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 num_tokens=512 num_states=2 num_heads=32 head_dim=128",
    "dtype=bf16 num_tokens=64 num_states=16 num_heads=32 head_dim=128",
    "dtype=f32 num_tokens=128 num_states=4 num_heads=128 head_dim=512",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::MergeStatesCase>(SplitWords(text));
  const int64_t num_rows = c.num_tokens * c.num_heads;
  const double bytes =
      static_cast<double>((c.num_states + 1) * num_rows * (c.head_dim * SizeBytes(c.dtype) + 4));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::vector<test::HostTensor> vs;
  std::vector<test::HostTensor> ss;
  std::vector<test::HostTensor> outs;
  for (int64_t i = 0; i < num_copies; ++i) {
    vs.emplace_back(c.dtype, Dims{c.num_tokens, c.num_states, c.num_heads, c.head_dim}).Fill(0.5);
    ss.emplace_back(DType::kF32, Dims{c.num_tokens, c.num_states, c.num_heads}).Fill(1);
    outs.emplace_back(c.dtype, Dims{c.num_tokens, c.num_heads, c.head_dim});
  }
  const test::HostTensor s_merged(DType::kF32, {c.num_tokens, c.num_heads});
  harness.Measure(
      {.text = text, .backend = ChosenCandidate<MergeStatesOp>(harness, {c.dtype}), .bytes = bytes},
      [&](int64_t i) {
        const auto copy = static_cast<size_t>(i % num_copies);
        MergeStates(on(vs[copy]), on(ss[copy]), on(outs[copy]), on(s_merged), {}, harness.stream());
      });
}

}  // namespace

OpBenchmark MergeStatesBenchmark() { return {"merge_states", kCases, Run}; }

}  // namespace flashinfer::bench
