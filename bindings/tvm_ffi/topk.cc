// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/topk.h for other languages.
#include "flashinfer/topk.h"

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

TopKOptions Options(bool sorted, bool highest_index, const TensorView& row_starts,
                    const TensorView& lengths) {
  return {.sorted = sorted,
          .tie_break = highest_index ? TieBreak::kHighestIndex : TieBreak::kLowestIndex,
          .row_starts = row_starts,
          .lengths = lengths};
}

void TopK(const TensorView& input, const TensorView& values, const TensorView& indices, bool sorted,
          bool highest_index, const TensorView& row_starts, const TensorView& lengths) {
  flashinfer::TopK(input, values, indices, Options(sorted, highest_index, row_starts, lengths),
                   StreamOf(input));
}

void TopKPageTableTransform(const TensorView& input, const TensorView& page_table,
                            const TensorView& row_to_request, int32_t page_size,
                            const TensorView& out, bool highest_index, const TensorView& lengths) {
  flashinfer::TopKPageTableTransform(
      input, {.page_table = page_table, .row_to_request = row_to_request, .page_size = page_size},
      out, Options(false, highest_index, TensorView(), lengths), StreamOf(input));
}

void TopKRaggedTransform(const TensorView& input, const TensorView& offsets, const TensorView& out,
                         bool highest_index, const TensorView& row_starts,
                         const TensorView& lengths) {
  flashinfer::TopKRaggedTransform(
      input, offsets, out, Options(false, highest_index, row_starts, lengths), StreamOf(input));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(top_k, flashinfer::bindings::TopK)
FLASHINFER_EXPORT(top_k_page_table_transform, flashinfer::bindings::TopKPageTableTransform)
FLASHINFER_EXPORT(top_k_ragged_transform, flashinfer::bindings::TopKRaggedTransform)
