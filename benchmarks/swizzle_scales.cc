// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales: bound by reading and writing them.
#include "ops/swizzle_scales.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/swizzle_scales.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "layout=128x4 num_rows=4096 num_blocks=512",
    "layout=8x4 num_rows=4096 num_blocks=512",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::SwizzleScalesCase>(SplitWords(text));
  const int64_t num_bytes = BlockScaleBytes(c.layout, c.num_rows, c.num_blocks);
  const double bytes = static_cast<double>(num_bytes + c.num_rows * c.num_blocks);
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::vector<test::HostTensor> rows;
  for (int64_t i = 0; i < num_copies; ++i) {
    rows.emplace_back(DType::kU8, Dims{c.num_rows, c.num_blocks}).Fill(1);
  }
  const test::HostTensor swizzled(DType::kU8, {num_bytes});
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<SwizzleScalesOp>(harness, {c.layout, 0}),
                   .bytes = bytes},
                  [&](int64_t i) {
                    SwizzleBlockScales(on(rows[static_cast<size_t>(i % num_copies)]), on(swizzled),
                                       c.layout, {}, harness.stream());
                  });
}

}  // namespace

OpBenchmark SwizzleScalesBenchmark() { return {"swizzle_scales", kCases, Run}; }

}  // namespace flashinfer::bench
