// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows on every candidate, against a float64 loop.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "flashinfer/grouped_gemm.h"
#include "support/case_run.h"
#include "support/cases/grouped_gemm.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

/// The tensors of a call in any form. Rows are counted through: row t of group g in the masked form
/// is row g · num_rows + t.
struct GroupedGemmCall {
  GroupedGemmCase c;
  std::vector<int64_t> row_groups;  ///< -1: padding
  HostTensor a, b, a_scales, b_scales, rows;

  /// Random numbers for groups of these lengths; by row, padding is around them.
  GroupedGemmCall(const GroupedGemmCase& of, const std::vector<int64_t>& lengths,
                  std::mt19937_64& rng);

  int64_t num_rows() const { return static_cast<int64_t>(row_groups.size()); }
  int64_t GroupOf(int64_t row) const { return row_groups[static_cast<size_t>(row)]; }
  HostTensor MakeOut() const { return {c.dtype_out, Shape(c.n), Strides(c.n)}; }
  void Run(const HostTensor& out, Backend backend = Backend()) const;

  /// Element of a tensor like a, in which `divisor` rows are one.
  double At(const HostTensor& x, int64_t row, int64_t column, int64_t divisor = 1) const;
  double Expected(int64_t row, int64_t column) const;
  /// What is wrong with a result, empty for nothing; rows of padding are to be as they were.
  std::string Mismatch(const HostTensor& out) const;

 private:
  Dims Shape(int64_t columns) const;
  Dims Strides(int64_t columns) const;
  HostTensor ScalesOf(const TensorView& matrix, int64_t rows_per_scale) const;
};

void CheckGroupedGemm(const GroupedGemmCase& c, CaseRun& run);

}  // namespace flashinfer::test
