// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back against float64 loops.
#include "support/checks/quantize.h"

#include <algorithm>
#include <cmath>

#include "support/mismatch.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

HostTensor MakeRows(const QuantizeCase& c, DType dtype) {
  return {dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + c.row_padding, 1}};
}

HostTensor MakeScales(const QuantizeCase& c) {
  if (c.group_size == 0) return {DType::kF32, {1}};
  const int64_t num_groups = c.hidden_size / c.group_size;
  if (c.column_major) return {DType::kF32, {c.num_rows, num_groups}, {1, c.num_rows + 3}};
  return {DType::kF32, {c.num_rows, num_groups}};
}

double ScaleAt(const QuantizeCase& c, const HostTensor& scales, int64_t row, int64_t column) {
  return c.group_size == 0 ? scales.At({0}) : scales.At({row, column / c.group_size});
}

/// Largest finite |x| of the group, or tensor, that an element belongs to.
double AmaxAt(const QuantizeCase& c, const HostTensor& x, int64_t row, int64_t column) {
  const bool whole = c.group_size == 0;
  const int64_t first = whole ? 0 : column / c.group_size * c.group_size;
  double amax = 0;
  for (int64_t r = whole ? 0 : row; r < (whole ? c.num_rows : row + 1); ++r) {
    for (int64_t i = first; i < (whole ? c.hidden_size : first + c.group_size); ++i) {
      const double size = std::abs(x.At({r, i}));
      if (std::isfinite(size)) amax = std::max(amax, size);
    }
  }
  return amax;
}

void ExpectScalesAreRight(const QuantizeCase& c, const HostTensor& x, const HostTensor& scales,
                          Trial& trial) {
  const double largest = NarrowValues(c.dtype_q).largest();
  const int64_t step = c.group_size == 0 ? c.hidden_size : c.group_size;
  for (int64_t row = 0; row < (c.group_size == 0 ? 1 : c.num_rows); ++row) {
    for (int64_t column = 0; column < c.hidden_size; column += step) {
      double right = std::max(AmaxAt(c, x, row, column) / largest, 1e-10);
      if (c.power_of_two) right = std::exp2(std::ceil(std::log2(right)));
      trial.ExpectNear("scales", {row, column}, ScaleAt(c, scales, row, column), right, {0, 2e-7});
    }
  }
}

void ExpectNearestCodes(const QuantizeCase& c, const HostTensor& x, const HostTensor& q,
                        const HostTensor& scales, Trial& trial) {
  const NarrowValues values(c.dtype_q);
  for (int64_t row = 0; row < c.num_rows; ++row) {
    for (int64_t i = 0; i < c.hidden_size; ++i) {
      const double exact = x.At({row, i}) / ScaleAt(c, scales, row, i);
      if (values.IsNearest(q.At({row, i}), exact)) continue;
      trial.ExpectEqual("q", {row, i}, q.At({row, i}), exact);
    }
  }
}

}  // namespace

void CheckQuantize(const QuantizeCase& c, CaseRun& run) {
  std::mt19937_64 rng(19);
  run.ForEachCandidate<QuantizeOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor x = MakeRows(c, c.dtype);
    x.FillNormal(rng, 3.0);
    HostTensor q = MakeRows(c, c.dtype_q);
    HostTensor scales = MakeScales(c);
    if (!c.dynamic) scales.FillUniform(rng, 1e-3, 0.1);
    HostTensor back = MakeRows(c, c.dtype);
    Quantize(on(x), on(q), on(scales),
             {.dynamic = c.dynamic, .power_of_two = c.power_of_two, .backend = trial.backend()});
    Dequantize(on(q), on(scales), on(back), trial.backend());
    on.Fetch();
    if (c.dynamic) ExpectScalesAreRight(c, x, scales, trial);
    ExpectNearestCodes(c, x, q, scales, trial);
    trial.ExpectTrue("padding of q is untouched", PaddingIsUntouched(q));
    trial.ExpectTrue("padding of scales is untouched", PaddingIsUntouched(scales));
    std::vector<double> expected = q.Values();
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      expected[i] *= ScaleAt(c, scales, at / c.hidden_size, at % c.hidden_size);
    }
    trial.Expect("back", Mismatch(back, expected, ToleranceOf(c.dtype)));
  });
}

}  // namespace flashinfer::test
