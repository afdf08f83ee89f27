// SPDX-License-Identifier: Apache-2.0
// Matrix products of groups of rows with a matrix each: the experts of a mixture.
#pragma once

#include <cstdint>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Factors of fp8 matrices, each for a block of elements: what was divided by when they were
/// quantised. Blocks at the edges may be smaller. Any strides: scales stored with rows inside are
/// a transposed view.
struct BlockScales {
  /// [ceil(rows / rows_per_scale), ceil(k / k_per_scale)] f32 of a, after the same leading
  /// dimensions as a; undefined view: none. Both sides have scales, or neither.
  TensorView a = TensorView();
  /// [num_groups, ceil(n / n_per_scale), ceil(k / k_per_scale)] f32 of b.
  TensorView b = TensorView();
  int32_t rows_per_scale = 1;
  int32_t n_per_scale = 128;
  int32_t k_per_scale = 128;
};

struct GroupedGemmOptions {
  BlockScales scales = BlockScales();
  Backend backend = Backend();
};

/// Multiplies each group of rows with the group's matrix: out[t] = b[g] · a[t], accumulated in
/// float32. Rows of a group depend on that group alone.
///
///   a       [num_rows, k]       f32, f16, bf16, e4m3, e5m2; any strides
///   b       [num_groups, n, k]  the dtype of a, for fp8 either; any strides
///   indptr  [num_groups + 1]    i32 or i64, host memory, non-decreasing, from 0 to num_rows;
///                               groups may be empty
///   out     [num_rows, n]       f32 or the dtype of a, for fp8 f32, f16 or bf16; dense rows
///
/// A product with block scales and no groups is that of one group.
FLASHINFER_API void GroupedGemm(const TensorView& a, const TensorView& b, const TensorView& indptr,
                                const TensorView& out, const GroupedGemmOptions& options = {},
                                Stream stream = {});

/// The same with the group of each row. Rows of group -1 are padding and left as they are.
///
///   row_groups  [num_rows]  i32, host memory, each -1 or below num_groups; groups may come in any
///                           order, but every change of group costs
FLASHINFER_API void GroupedGemmByRow(const TensorView& a, const TensorView& b,
                                     const TensorView& row_groups, const TensorView& out,
                                     const GroupedGemmOptions& options = {}, Stream stream = {});

/// The same with room for as many rows in each group, of which the first ones count; the others of
/// out are left as they are.
///
///   a         [num_groups, max_rows, k]
///   num_rows  [num_groups]               i32, host memory, each up to max_rows
///   out       [num_groups, max_rows, n]
FLASHINFER_API void GroupedGemmMasked(const TensorView& a, const TensorView& b,
                                      const TensorView& num_rows, const TensorView& out,
                                      const GroupedGemmOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
