// SPDX-License-Identifier: Apache-2.0
// Look-ups of packed weights' rows against exact decoders of the formats.
#include "support/checks/gather_rows.h"

#include <random>

#include "ops/linear.h"
#include "support/mismatch.h"

namespace flashinfer::test {

void CheckGatherRows(const GatherRowsCase& c, CaseRun& run) {
  std::mt19937_64 rng(14);
  const std::vector<uint8_t> data = RandomWeight(c.format, c.rows, c.cols, rng);
  const WeightView view{data.data(), c.format, c.rows, c.cols};
  const std::vector<double> all = Dequantize(view);
  // Every other element of a longer list.
  HostTensor ids(DType::kI32, {c.num_tokens}, {2});
  std::vector<double> expected;
  for (int64_t i = 0; i < c.num_tokens; ++i) {
    // The last row, the first, then any, some more than once.
    const int64_t row = i == 0   ? c.rows - 1
                        : i == 1 ? 0
                                 : static_cast<int64_t>(rng() % static_cast<uint64_t>(c.rows));
    ids.Set({i}, static_cast<double>(row));
    expected.insert(expected.end(), all.begin() + row * c.cols, all.begin() + (row + 1) * c.cols);
  }
  // One rounding to the output's dtype, after that of a scale's product to float32.
  const double relative = c.dtype_out == DType::kF32 ? 2e-7 : 4e-3;
  run.ForEachCandidate<GatherRowsOp>({c.format, c.rows, c.cols}, c, [&](Trial& trial) {
    const PackedWeight weight(view, {.backend = trial.backend(), .device = trial.device()});
    HostTensor out(c.dtype_out, {c.num_tokens, c.cols}, {c.cols + c.padding, 1});
    DeviceCopies on(trial.device());
    weight.GatherRows(on(ids), on(out));
    on.Fetch();
    trial.Expect("out", Mismatch(out, expected, {1e-6, relative}));
  });
}

}  // namespace flashinfer::test
