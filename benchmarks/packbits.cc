// SPDX-License-Identifier: Apache-2.0
// Packing of bits: bound by reading a byte for each.
#include "ops/packbits.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/packbits.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "little=1 size=16777216",
    "little=0 size=16777216",
    "little=1 size=4096",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::PackBitsCase>(SplitWords(text));
  const double bytes = 1.125 * static_cast<double>(c.size);
  const int64_t num_copies = harness.NumColdCopies(bytes);
  std::vector<test::HostTensor> xs;
  for (int64_t i = 0; i < num_copies; ++i) xs.emplace_back(c.dtype, Dims{c.size}).Fill(1);
  const test::HostTensor packed(DType::kU8, {(c.size + 7) / 8});
  harness.Measure(
      {.text = text, .backend = ChosenCandidate<PackBitsOp>(harness, ProblemOf(c)), .bytes = bytes},
      [&](int64_t i) {
        PackBits(on(xs[static_cast<size_t>(i % num_copies)]), on(packed),
                 c.little ? BitOrder::kLittle : BitOrder::kBig, {}, harness.stream());
      });
}

}  // namespace

OpBenchmark PackBitsBenchmark() { return {"packbits", kCases, Run}; }

}  // namespace flashinfer::bench
