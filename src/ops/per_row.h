// SPDX-License-Identifier: Apache-2.0
// Checks and log entries of per-row values: apart from vocabulary.h, which kernels include.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "ops/vocabulary.h"

namespace flashinfer {

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

/// Checks a value for each of `num_rows` rows of `device`.
template <class T>
RowValues<T> CheckPerRow(std::string_view name, const PerRow<T>& values, int64_t num_rows,
                         const Accepted<T>& accepted, Device device = {}) {
  const auto is_good = [&](T v) { return v >= accepted.low && v <= accepted.high; };
  if (!values.tensor.defined()) {
    FLASHINFER_CHECK(is_good(values.value), "{}: is {}, accepted: {}", name, values.value,
                     accepted.text);
    return {.value = values.value};
  }
  const TensorView& tensor = values.tensor;
  const bool is_single = tensor.rank() == 1 && tensor.shape(0) == 1;
  CheckTensor(name, tensor).On(device).Is(accepted.dtype).Shape({is_single ? 1 : num_rows});
  const RowValues<T> checked{.data = tensor.data_as<const T>(),
                             .stride = is_single ? 0 : tensor.stride(0),
                             .is_single = is_single};
  if (device.type != DeviceType::kCpu) return checked;
  for (int64_t row = 0; row < tensor.shape(0); ++row) {
    FLASHINFER_CHECK(is_good(checked[row]), "{}: row {} is {}, accepted: {}", name, row,
                     checked[row], accepted.text);
  }
  if (is_single) return {.value = *checked.data};
  return checked;
}

template <class T>
LogArgument PerRowArgument(std::string_view name, const PerRow<T>& values) {
  if (values.tensor.defined()) return {name, values.tensor};
  return {name, ValueText(values.value)};
}

}  // namespace flashinfer
