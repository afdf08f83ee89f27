// SPDX-License-Identifier: Apache-2.0
// What the operators over rows of a vocabulary share: problem, rows, checked per-row values.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "core/check.h"
#include "core/field_list.h"
#include "core/log.h"
#include "core/text.h"
#include "flashinfer/sampling.h"

namespace flashinfer {

/// What decides who can run one.
struct VocabularyProblem {
  DType dtype = DType::kF32;
  int64_t vocab_size = 131072;
};

template <FieldsOf<VocabularyProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vocab_size)
}

/// A PerRow<T> that has been checked: row i is `data[i * stride]`.
template <class T>
struct RowValues {
  const T* data = nullptr;  // null: every row is `value`
  int64_t stride = 0;
  T value{};
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

/// The values that a parameter may take, and how a message says so.
template <class T>
struct Accepted {
  DType dtype;
  T low;
  T high;
  std::string_view text;
};

inline constexpr Accepted<float> kTemperatures{DType::kF32, 0, std::numeric_limits<float>::max(),
                                               "0 or more"};
inline constexpr Accepted<float> kFractions{DType::kF32, 0, 1, "0 to 1"};
inline constexpr Accepted<int32_t> kCounts{DType::kI32, 0, std::numeric_limits<int32_t>::max(),
                                           "0 (all) or more"};
inline constexpr Accepted<int64_t> kAnyNumber{DType::kI64, std::numeric_limits<int64_t>::min(),
                                              std::numeric_limits<int64_t>::max(), "any"};

/// Checks a value for each of `num_rows` rows.
template <class T>
RowValues<T> CheckPerRow(std::string_view name, const PerRow<T>& values, int64_t num_rows,
                         const Accepted<T>& accepted) {
  const auto is_good = [&](T v) { return v >= accepted.low && v <= accepted.high; };
  if (!values.tensor.defined()) {
    FLASHINFER_CHECK(is_good(values.value), "{}: is {}, accepted: {}", name, values.value,
                     accepted.text);
    return {.value = values.value};
  }
  const TensorView& tensor = values.tensor;
  const bool is_single = tensor.rank() == 1 && tensor.shape(0) == 1;
  CheckTensor(name, tensor).On({}).Is(accepted.dtype).Shape({is_single ? 1 : num_rows});
  const RowValues<T> checked{.data = tensor.data_as<const T>(),
                             .stride = is_single ? 0 : tensor.stride(0)};
  for (int64_t row = 0; row < tensor.shape(0); ++row) {
    FLASHINFER_CHECK(is_good(checked[row]), "{}: row {} is {}, accepted: {}", name, row,
                     checked[row], accepted.text);
  }
  if (is_single) return {.value = *checked.data};
  return checked;
}

/// Rows that a call's outputs read, each below `num_rows`; an undefined view is row i for output i.
RowIndices CheckIndices(std::string_view name, const TensorView& indices, int64_t num_rows);

VocabularyRows CheckRows(std::string_view name, const TensorView& rows, bool are_logits);

template <class T>
LogArgument PerRowArgument(std::string_view name, const PerRow<T>& values) {
  if (values.tensor.defined()) return {name, values.tensor};
  return {name, ValueText(values.value)};
}

}  // namespace flashinfer
