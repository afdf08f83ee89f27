// SPDX-License-Identifier: Apache-2.0
// Reading and writing single elements of any dtype as double: for logs, checks and tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/check.h"
#include "core/convert.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Calls `visit` with a value-initialised element of the C++ type that stores `dtype`; throws
/// kInternal for the two-in-a-byte types, whose elements have no address.
template <class Visit>
decltype(auto) VisitElementType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kF32:
      return visit(float{});
    case DType::kF16:
      return visit(F16{});
    case DType::kBF16:
      return visit(BF16{});
    case DType::kE4M3:
      return visit(E4M3{});
    case DType::kE5M2:
      return visit(E5M2{});
    case DType::kE8M0:
      return visit(E8M0{});
    case DType::kI8:
      return visit(int8_t{});
    case DType::kU8:
      return visit(uint8_t{});
    case DType::kI32:
      return visit(int32_t{});
    case DType::kI64:
      return visit(int64_t{});
    case DType::kBool:
      return visit(bool{});
    case DType::kE2M1x2:
    case DType::kI4x2:
      break;
  }
  throw Error(ErrorKind::kInternal, fmt::format("{} has no element address", Name(dtype)));
}

template <class T>
double ElementToDouble(T value) {
  if constexpr (requires { value.bits; }) {
    return ToFloat(value);
  } else {
    return static_cast<double>(value);
  }
}

/// Value of the element `index` elements after the tensor's data pointer.
inline double ReadElement(const TensorView& tensor, int64_t index) {
  return VisitElementType(tensor.dtype(), [&]<class T>(T) {
    return ElementToDouble(tensor.data_as<const T>()[index]);
  });
}

/// Narrows as FromFloat() does; integers are rounded to nearest even and clamped.
inline void WriteElement(const TensorView& tensor, int64_t index, double value) {
  VisitElementType(tensor.dtype(), [&]<class T>(T) {
    T& element = tensor.data_as<T>()[index];
    if constexpr (requires { element.bits; }) {
      element = FromFloat<T>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, float>) {
      element = static_cast<float>(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      element = value != 0;
    } else {
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      element = value >= high ? std::numeric_limits<T>::max()
                              : static_cast<T>(std::max(low, std::nearbyint(value)));
    }
  });
}

/// Calls `visit(offset)` for each element in row-major order, in elements from the data pointer.
template <class Visit>
void ForEachOffset(const TensorView& tensor, Visit&& visit) {
  if (tensor.num_elements() == 0) return;
  Dims index = tensor.shape();
  for (int i = 0; i < index.rank(); ++i) index[i] = 0;
  int64_t offset = 0;
  while (true) {
    visit(offset);
    int i = tensor.rank() - 1;
    for (; i >= 0; --i) {
      offset += tensor.stride(i);
      if (++index[i] < tensor.shape(i)) break;
      offset -= tensor.stride(i) * tensor.shape(i);
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

/// Calls `visit(value)` for each element in row-major order; two-in-a-byte types give both values.
template <class Visit>
void ForEachElement(const TensorView& tensor, Visit&& visit) {
  ForEachOffset(tensor, [&](int64_t offset) {
    const bool is_e2m1 = tensor.dtype() == DType::kE2M1x2;
    if (!is_e2m1 && tensor.dtype() != DType::kI4x2) {
      visit(ReadElement(tensor, offset));
      return;
    }
    const uint8_t byte = tensor.data_as<const uint8_t>()[offset];
    for (int shift : {0, 4}) {
      const int nibble = (byte >> shift) & 15;
      visit(is_e2m1 ? ToFloat(E2M1{static_cast<uint8_t>(nibble)}) : (nibble ^ 8) - 8);
    }
  });
}

}  // namespace flashinfer
