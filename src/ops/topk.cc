// SPDX-License-Identifier: Apache-2.0
// Top-k selection: check, choose, run.
#include "ops/topk.h"

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {

void TopK(const TensorView& input, const TensorView& values, const TensorView& indices,
          const TopKOptions& options, Stream) {
  const bool takes_highest = options.tie_break == TieBreak::kHighestIndex;
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("top_k", {{"input", input},
                      {"values", values},
                      {"indices", indices},
                      {"sorted", ValueText(options.sorted)},
                      {"tie_break", takes_highest ? "highest_index" : "lowest_index"}});
  }
  const VocabularyRows rows = CheckRows("input", input, true);
  CheckTensor("indices", indices).On({}).IsOneOf({DType::kI32, DType::kI64});
  CheckTensor("indices", indices).Shape({input.shape(0), -1}).LastDimDense().NoOverlap();
  if (values.defined()) {
    CheckTensor("values", values).On({}).Is(input.dtype()).Shape(indices.shape());
    CheckTensor("values", values).LastDimDense().NoOverlap();
  }
  Choose<TopKOp>({input.dtype(), input.shape(1)},
                 options.backend)({.rows = rows,
                                   .k = indices.shape(1),
                                   .values = values.data(),
                                   .values_stride = values.defined() ? values.stride(0) : 0,
                                   .indices = indices.data(),
                                   .indices_stride = indices.stride(0),
                                   .indices_are_64_bit = indices.dtype() == DType::kI64,
                                   .sorted = options.sorted,
                                   .tie_break = options.tie_break});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("top_k", {{"values", values}, {"indices", indices}});
}

}  // namespace flashinfer
