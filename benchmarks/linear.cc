// SPDX-License-Identifier: Apache-2.0
// Linear layers: bound by reading the weights with few tokens, by multiplying with many.
#include "ops/linear.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/linear.h"
#include "support/gguf_blocks.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    // SmolLM2-135M: q/k/v, output, gate and up, down, vocabulary.
    "format=q4_1 rows=960 cols=576 num_tokens=1",
    "format=q4_1 rows=576 cols=576 num_tokens=1",
    "format=q4_1 rows=3072 cols=576 num_tokens=1",
    "format=q4_1 rows=576 cols=1536 num_tokens=1",
    "format=q8_0 rows=49152 cols=576 num_tokens=1",
    "format=q4_1 rows=3072 cols=576 num_tokens=16",
    "format=q8_0 rows=49152 cols=576 num_tokens=16",
    "format=q4_1 rows=3072 cols=576 num_tokens=512",
    "format=q4_1 rows=576 cols=1536 num_tokens=512",
    // Llama-8B: output, gate and up.
    "format=bf16 rows=4096 cols=4096 num_tokens=1",
    "format=f16 rows=4096 cols=4096 num_tokens=1",
    "format=f32 rows=4096 cols=4096 num_tokens=1",
    "format=q4_0 rows=4096 cols=4096 num_tokens=1",
    "format=q4_1 rows=28672 cols=4096 num_tokens=1",
    "format=q8_0 rows=4096 cols=4096 num_tokens=1",
    "format=q4_k rows=4096 cols=4096 num_tokens=1",
    "format=q6_k rows=4096 cols=4096 num_tokens=1",
    "format=q4_k rows=4096 cols=4096 num_tokens=8",
    "format=bf16 rows=4096 cols=4096 num_tokens=256",
    "format=f16 rows=4096 cols=4096 num_tokens=256",
    "format=f32 rows=4096 cols=4096 num_tokens=256",
    "format=q4_0 rows=4096 cols=4096 num_tokens=256",
    "format=q4_1 rows=4096 cols=4096 num_tokens=256",
    "format=q8_0 rows=4096 cols=4096 num_tokens=256",
    "format=q4_k rows=4096 cols=4096 num_tokens=256",
    "format=q6_k rows=4096 cols=4096 num_tokens=256",
};

Math MathOf(WeightFormat format) {
  if (BlockSize(format) > 1) return Math::kI8;
  return format == WeightFormat::kBF16 ? Math::kBF16 : Math::kF32;
}

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::LinearCase>(SplitWords(text));
  const int64_t num_blocks = c.rows * c.cols / BlockSize(c.format);
  const auto weight_bytes = static_cast<double>(num_blocks * BlockBytes(c.format));
  const double bytes = weight_bytes +
                       static_cast<double>(c.num_tokens * c.cols * SizeBytes(c.dtype_x)) +
                       static_cast<double>(c.num_tokens * c.rows * SizeBytes(c.dtype_out));
  std::mt19937_64 rng(1);
  const std::vector<uint8_t> data = test::RandomWeight(c.format, c.rows, c.cols, rng);
  std::vector<PackedWeight> weights(static_cast<size_t>(harness.NumColdCopies(weight_bytes)));
  for (PackedWeight& w : weights)
    w = PackedWeight({data.data(), c.format, c.rows, c.cols}, {.device = harness.device()});
  test::HostTensor x(c.dtype_x, {c.num_tokens, c.cols});
  x.FillNormal(rng);
  test::HostTensor out(c.dtype_out, {c.num_tokens, c.rows});
  harness.Measure({.text = text,
                   .backend = std::string(weights[0].backend()),
                   .bytes = bytes,
                   .flops = 2.0 * static_cast<double>(c.rows * c.cols * c.num_tokens),
                   .math = MathOf(c.format)},
                  [&](int64_t i) {
                    Linear(on(x), weights[static_cast<size_t>(i) % weights.size()], on(out), {},
                           harness.stream());
                  });
}

}  // namespace

OpBenchmark LinearBenchmark() { return {"linear", kCases, Run}; }

}  // namespace flashinfer::bench
