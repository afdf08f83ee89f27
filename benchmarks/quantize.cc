// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits: bound by reading x and writing q.
#include "ops/quantize.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/quantize.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 dtype_q=e4m3 num_rows=512 hidden_size=4096 group_size=128",
    "dtype=bf16 dtype_q=e4m3 num_rows=512 hidden_size=4096 group_size=4096",
    "dtype=bf16 dtype_q=e4m3 num_rows=512 hidden_size=4096 group_size=0 dynamic=0",
    "dtype=bf16 dtype_q=e4m3 num_rows=512 hidden_size=4096 group_size=0",
    "dtype=bf16 dtype_q=i8 num_rows=512 hidden_size=4096 group_size=4096",
    "dtype=f32 dtype_q=i8 num_rows=512 hidden_size=4096 group_size=4096",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::QuantizeCase>(SplitWords(text));
  const auto written = static_cast<double>(c.num_rows * c.hidden_size);
  const double bytes = written * static_cast<double>(SizeBytes(c.dtype) + 1);
  const int64_t num_copies = harness.NumColdCopies(bytes);
  const Dims shape{c.num_rows, c.hidden_size};
  std::vector<test::HostTensor> xs;
  std::vector<test::HostTensor> qs;
  for (int64_t i = 0; i < num_copies; ++i) {
    xs.emplace_back(c.dtype, shape).Fill(0.5);
    qs.emplace_back(c.dtype_q, shape);
  }
  test::HostTensor scales(
      DType::kF32, c.group_size == 0 ? Dims{1} : Dims{c.num_rows, c.hidden_size / c.group_size});
  scales.Fill(0.01);
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<QuantizeOp>(harness, ProblemOf(c)),
                   .bytes = bytes,
                   .written = written},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    Quantize(on(xs[copy]), on(qs[copy]), on(scales), {.dynamic = c.dynamic},
                             harness.stream());
                  });
}

}  // namespace

OpBenchmark QuantizeBenchmark() { return {"quantize", kCases, Run}; }

}  // namespace flashinfer::bench
