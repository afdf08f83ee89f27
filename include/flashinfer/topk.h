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
  /// [num_rows] i32 each: row i is the columns from row_starts[i] to row_starts[i] + lengths[i],
  /// and indices count from row_starts[i]. Undefined views: from 0, and to the end. On a CUDA
  /// device they are not checked, but cut to the columns there are.
  TensorView row_starts = TensorView();
  TensorView lengths = TensorView();
  Backend backend = Backend();
};

/// The k largest elements of each row, k being the columns of the outputs. NaN counts as larger
/// than everything, all NaN as equal. The same input always gives the same output.
///
///   input    [num_rows, num_cols]  f32, f16, bf16; num_cols up to 2^31 - 1
///   values   [num_rows, k]         the dtype of input; undefined view when not wanted
///   indices  [num_rows, k]         i32 or i64
///
/// With k above the columns of a row the last columns hold -inf and index -1.
FLASHINFER_API void TopK(const TensorView& input, const TensorView& values,
                         const TensorView& indices, const TopKOptions& options = {},
                         Stream stream = {});

/// Where the tokens of a paged cache are, for TopKPageTableTransform().
struct TopKPages {
  /// [num_requests, max_pages] i32: the page of each page_size tokens of a request.
  TensorView page_table;
  /// [num_rows] i32, each below num_requests: the request of each row. Undefined view: row i is of
  /// request i.
  TensorView row_to_request = TensorView();
  int32_t page_size = 1;
};

/// TopK() over scores of a request's tokens, as places in the cache: token t becomes
/// page_table[request][t / page_size] · page_size + t % page_size. Places after the last are -1.
///
///   input  [num_rows, num_cols]  f32, f16, bf16
///   out    [num_rows, k]         i32
FLASHINFER_API void TopKPageTableTransform(const TensorView& input, const TopKPages& pages,
                                           const TensorView& out, const TopKOptions& options = {},
                                           Stream stream = {});

/// TopK() over scores of ragged rows: column c of row i becomes offsets[i] + c. Columns after the
/// last are -1.
///
///   input    [num_rows, num_cols]  f32, f16, bf16
///   offsets  [num_rows]            i32
///   out      [num_rows, k]         i32
FLASHINFER_API void TopKRaggedTransform(const TensorView& input, const TensorView& offsets,
                                        const TensorView& out, const TopKOptions& options = {},
                                        Stream stream = {});

}  // namespace flashinfer
