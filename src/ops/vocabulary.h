// SPDX-License-Identifier: Apache-2.0
// What the operators over rows of a vocabulary share: problem, rows, per-row values.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/field_list.h"
#include "flashinfer/sampling.h"

namespace flashinfer {

/// What decides who can run one.
struct VocabularyProblem {
  DType dtype = DType::kF32;
  int64_t vocab_size = 131072;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<VocabularyProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vocab_size)
  FLASHINFER_NAMED(arch)
}

/// A PerRow<T> that has been checked: row i is `data[i * stride]`. Data is where the rows are; only
/// in host memory have its values been looked at.
template <class T>
struct RowValues {
  const T* data = nullptr;  // null: every row is `value`
  int64_t stride = 0;
  T value{};
  bool is_single = false;  ///< a tensor of one value for all rows
  T operator[](int64_t row) const { return data == nullptr ? value : data[row * stride]; }
};

/// Rows of logits or probabilities; strides count elements.
struct VocabularyRows {
  const void* data;
  int64_t num_rows;
  int64_t vocab_size;
  int64_t stride;
  DType dtype;
  bool are_logits;
};

/// Which row each output reads: `indices` of a call, checked.
struct RowIndices {
  const void* data = nullptr;  // null: row i
  bool is_64_bit = false;
  int64_t stride = 0;
  int64_t operator[](int64_t i) const {
    if (data == nullptr) return i;
    return is_64_bit ? static_cast<const int64_t*>(data)[i * stride]
                     : static_cast<const int32_t*>(data)[i * stride];
  }
};

/// Rows of `rows` that a call's outputs read, in host memory each below their number; an undefined
/// view is row i for output i.
RowIndices CheckIndices(std::string_view name, const TensorView& indices, const TensorView& rows);

VocabularyRows CheckRows(std::string_view name, const TensorView& rows, bool are_logits);

}  // namespace flashinfer
