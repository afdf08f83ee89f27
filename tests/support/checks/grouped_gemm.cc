// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows against a float64 loop.
#include "support/checks/grouped_gemm.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ops/grouped_gemm.h"

namespace flashinfer::test {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> RowGroups(const GroupedGemmCase& c, const std::vector<int64_t>& lengths) {
  std::vector<int64_t> groups;
  for (int64_t g = 0; g < c.num_groups; ++g) {
    const int64_t length = lengths[static_cast<size_t>(g)];
    if (c.form == RowForm::kByRow) groups.push_back(-1);
    groups.insert(groups.end(), static_cast<size_t>(length), g);
    const int64_t padding = c.form == RowForm::kByRow ? 2 : c.num_rows - length;
    if (c.form == RowForm::kIndptr) continue;
    groups.insert(groups.end(), static_cast<size_t>(padding), -1);
  }
  return groups;
}

/// What the form says the rows by: bounds, groups or counts.
HostTensor RowsTensor(const GroupedGemmCase& c, const std::vector<int64_t>& lengths,
                      const std::vector<int64_t>& row_groups) {
  if (c.form == RowForm::kByRow) {
    HostTensor rows(DType::kI32, {static_cast<int64_t>(row_groups.size())});
    int64_t t = 0;
    for (int64_t group : row_groups) rows.Set({t++}, static_cast<double>(group));
    return rows;
  }
  const bool is_indptr = c.form == RowForm::kIndptr;
  HostTensor rows(DType::kI32, {c.num_groups + (is_indptr ? 1 : 0)});
  if (is_indptr) rows.Set({0}, 0);
  double end = 0;
  for (int64_t g = 0; g < c.num_groups; ++g) {
    const auto length = static_cast<double>(lengths[static_cast<size_t>(g)]);
    end += length;
    rows.Set({is_indptr ? g + 1 : g}, is_indptr ? end : length);
  }
  return rows;
}

}  // namespace

GroupedGemmCall::GroupedGemmCall(const GroupedGemmCase& of, const std::vector<int64_t>& lengths,
                                 std::mt19937_64& rng)
    : c(of),
      row_groups(RowGroups(of, lengths)),
      a(c.dtype_a, Shape(c.k), Strides(c.k)),
      b(c.dtype_b, {c.num_groups, c.n, c.k}),
      a_scales(ScalesOf(a.view(), c.rows_per_scale)),
      b_scales(ScalesOf(b.view(), c.n_per_scale)),
      rows(RowsTensor(of, lengths, row_groups)) {
  a.FillNormal(rng);
  b.FillNormal(rng, 1 / std::sqrt(static_cast<double>(c.k)));
  a_scales.FillUniform(rng, 0.2, 2);
  b_scales.FillUniform(rng, 0.2, 2);
}

Dims GroupedGemmCall::Shape(int64_t columns) const {
  if (c.form == RowForm::kMasked) return {c.num_groups, c.num_rows, columns};
  return {num_rows(), columns};
}

Dims GroupedGemmCall::Strides(int64_t columns) const {
  if (c.form == RowForm::kMasked) return {c.num_rows * (columns + 2) + 1, columns + 2, 1};
  return {columns + 2, 1};
}

HostTensor GroupedGemmCall::ScalesOf(const TensorView& matrix, int64_t rows_per_scale) const {
  Dims shape = matrix.shape();
  const int last = shape.rank() - 1;
  shape[last - 1] = CeilDiv(shape[last - 1], rows_per_scale);
  shape[last] = CeilDiv(c.k, c.k_per_scale);
  if (!c.scales_are_transposed) return {DType::kF32, shape};
  Dims strides = shape;
  strides[last - 1] = 1;
  strides[last] = shape[last - 1];
  if (last == 2) strides[0] = shape[1] * shape[2];
  return {DType::kF32, shape, strides};
}

double GroupedGemmCall::At(const HostTensor& x, int64_t row, int64_t column,
                           int64_t divisor) const {
  if (c.form != RowForm::kMasked) return x.At({row / divisor, column});
  return x.At({row / c.num_rows, row % c.num_rows / divisor, column});
}

double GroupedGemmCall::Expected(int64_t row, int64_t column) const {
  const int64_t group = GroupOf(row);
  double sum = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    double scale = 1;
    if (c.has_scales) {
      const int64_t block = i / c.k_per_scale;
      scale = At(a_scales, row, block, c.rows_per_scale) *
              b_scales.At({group, column / c.n_per_scale, block});
    }
    sum += scale * At(a, row, i) * b.At({group, column, i});
  }
  return sum;
}

void GroupedGemmCall::Run(const HostTensor& out, Backend backend) const {
  GroupedGemmOptions options{.backend = backend};
  if (c.has_scales) {
    options.scales = {.a = a_scales,
                      .b = b_scales,
                      .rows_per_scale = c.rows_per_scale,
                      .n_per_scale = c.n_per_scale,
                      .k_per_scale = c.k_per_scale};
  }
  const auto run = c.form == RowForm::kIndptr  ? GroupedGemm
                   : c.form == RowForm::kByRow ? GroupedGemmByRow
                                               : GroupedGemmMasked;
  run(a, b, rows, out, options, {});
}

std::string GroupedGemmCall::Mismatch(const HostTensor& out) const {
  if (!PaddingIsUntouched(out)) return "bytes outside the tensor's elements were written";
  const Tolerance tolerance = ToleranceOf(c.dtype_out, c.k);
  std::ostringstream words;
  for (int64_t row = 0; row < num_rows(); ++row) {
    for (int64_t j = 0; j < c.n; ++j) {
      const double actual = At(out, row, j);
      if (GroupOf(row) < 0) {
        if (std::isnan(actual)) continue;
        words << "row " << row << " is padding and was written";
        return words.str();
      }
      const double expected = Expected(row, j);
      if (Near(actual, expected, tolerance)) continue;
      words << "row " << row << ", column " << j << " is " << actual << ", expected " << expected;
      return words.str();
    }
  }
  return "";
}

void CheckGroupedGemm(const GroupedGemmCase& c, CaseRun& run) {
  std::mt19937_64 rng(71);
  std::vector<int64_t> lengths;
  for (int64_t g = 0; g < c.num_groups; ++g) {
    lengths.push_back(g % 3 == 1 ? 0 : std::max<int64_t>(0, c.num_rows - g));
  }
  const GroupedGemmCall call(c, lengths, rng);
  run.ForEachCandidate<GroupedGemmOp>({c.dtype_a, c.dtype_b, c.dtype_out, c.has_scales, c.n, c.k},
                                      c, [&](Trial& trial) {
                                        const HostTensor out = call.MakeOut();
                                        call.Run(out, trial.backend());
                                        trial.Expect("out", call.Mismatch(out));
                                      });
}

}  // namespace flashinfer::test
