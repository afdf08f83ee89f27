// SPDX-License-Identifier: Apache-2.0
// Checks of rows of a vocabulary.
#include "ops/vocabulary.h"

#include <limits>

#include "core/check.h"

namespace flashinfer {

RowIndices CheckIndices(std::string_view name, const TensorView& indices, const TensorView& rows) {
  if (!indices.defined()) return {};
  CheckTensor(name, indices).On(rows.device()).IsOneOf({DType::kI32, DType::kI64}).Rank(1);
  const RowIndices checked{indices.data(), indices.dtype() == DType::kI64, indices.stride(0)};
  if (rows.device().type != DeviceType::kCpu) return checked;
  const int64_t num_rows = rows.shape(0);
  for (int64_t i = 0; i < indices.shape(0); ++i) {
    FLASHINFER_CHECK(checked[i] >= 0 && checked[i] < num_rows, "{}[{}]: is {}, accepted: 0 to {}",
                     name, i, checked[i], num_rows - 1);
  }
  return checked;
}

VocabularyRows CheckRows(std::string_view name, const TensorView& rows, bool are_logits) {
  CheckTensor(name, rows).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  FLASHINFER_CHECK(rows.shape(1) > 0 && rows.shape(1) <= std::numeric_limits<int32_t>::max(),
                   "{}: vocab_size is {}, accepted: 1 to 2147483647", name, rows.shape(1));
  return {.data = rows.data(),
          .num_rows = rows.shape(0),
          .vocab_size = rows.shape(1),
          .stride = rows.stride(0),
          .dtype = rows.dtype(),
          .are_logits = are_logits};
}

}  // namespace flashinfer
