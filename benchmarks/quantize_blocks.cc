// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks: bound by reading x and writing q.
#include "ops/quantize_blocks.h"

#include <vector>

#include "core/fields.h"
#include "op_benchmarks.h"
#include "support/cases/quantize_blocks.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "format=mxfp8_e4m3 dtype=bf16 num_rows=512 hidden_size=4096 padded_size=4096",
    "format=mxfp4 dtype=bf16 num_rows=512 hidden_size=4096 padded_size=4096",
    "format=nvfp4 dtype=bf16 num_rows=512 hidden_size=4096 padded_size=4096",
    "format=nvfp4 dtype=f32 num_rows=512 hidden_size=4096 padded_size=4096",
};

void Run(Harness& harness, const std::string& text) {
  test::DeviceCopies& on = harness.on();
  const auto c = ParseFields<test::QuantizeBlocksCase>(SplitWords(text));
  const int64_t row_bytes = c.padded_size / ElementsPerByte(c.format);
  const int64_t num_blocks = c.padded_size / ElementsPerBlock(c.format);
  const auto written = static_cast<double>(c.num_rows * (row_bytes + num_blocks));
  const double bytes =
      written + static_cast<double>(c.num_rows * c.hidden_size * SizeBytes(c.dtype));
  const int64_t num_copies = harness.NumColdCopies(bytes);
  const bool is_fp8 = ElementsPerByte(c.format) == 1;
  const DType dtype_q = is_fp8 ? DType::kE4M3 : DType::kE2M1x2;
  std::vector<test::HostTensor> xs;
  std::vector<test::HostTensor> qs;
  for (int64_t i = 0; i < num_copies; ++i) {
    xs.emplace_back(c.dtype, Dims{c.num_rows, c.hidden_size}).Fill(0.5);
    qs.emplace_back(dtype_q, Dims{c.num_rows, row_bytes});
  }
  const test::HostTensor scales(c.format == BlockFormat::kNvFp4 ? DType::kE4M3 : DType::kE8M0,
                                {BlockScaleBytes(c.scale_layout, c.num_rows, num_blocks)});
  harness.Measure({.text = text,
                   .backend = ChosenCandidate<QuantizeBlocksOp>(harness, ProblemOf(c)),
                   .bytes = bytes,
                   .written = written},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    QuantizeBlocks(on(xs[copy]), on(qs[copy]), on(scales),
                                   {.scale_layout = c.scale_layout}, harness.stream());
                  });
}

}  // namespace

OpBenchmark QuantizeBlocksBenchmark() { return {"quantize_blocks", kCases, Run}; }

}  // namespace flashinfer::bench
