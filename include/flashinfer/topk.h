// SPDX-License-Identifier: Apache-2.0
// The largest elements of rows, with their indices.
#pragma once

#include <cstdint>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Which of the elements that equal the smallest one kept are kept.
enum class TieBreak : uint8_t { kLowestIndex, kHighestIndex };

struct TopKOptions {
  bool sorted = false;  ///< by (value descending, index ascending); else by index alone
  TieBreak tie_break = TieBreak::kLowestIndex;
  Backend backend = Backend();
};

/// The k largest elements of each row, k being the columns of the outputs. NaN counts as larger
/// than everything, all NaN as equal. The same input always gives the same output.
///
///   input    [num_rows, num_cols]  f32, f16, bf16; num_cols up to 2^31 - 1
///   values   [num_rows, k]         the dtype of input; undefined view when not wanted
///   indices  [num_rows, k]         i32 or i64
///
/// With k > num_cols the last columns hold -inf and index -1.
FLASHINFER_API void TopK(const TensorView& input, const TensorView& values,
                         const TensorView& indices, const TopKOptions& options = {},
                         Stream stream = {});

}  // namespace flashinfer
