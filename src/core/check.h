// SPDX-License-Identifier: Apache-2.0
// Checks that throw messages naming argument, value and what is accepted.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "flashinfer/error.h"
#include "flashinfer/tensor.h"

/// Throws kInvalidArgument with the formatted message unless `condition` holds: the caller's fault.
#define FLASHINFER_CHECK(condition, ...)                                   \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      throw ::flashinfer::Error(::flashinfer::ErrorKind::kInvalidArgument, \
                                ::fmt::format(__VA_ARGS__));               \
  } while (false)

/// Throws kInternal unless `condition` holds: this library's fault.
#define FLASHINFER_ASSERT(condition, ...)                                        \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      throw ::flashinfer::Error(                                                 \
          ::flashinfer::ErrorKind::kInternal,                                    \
          ::fmt::format("a bug of flashinfer, please report it: " __VA_ARGS__)); \
  } while (false)

namespace flashinfer {

/// Checks of one tensor argument, one line each:
/// `CheckTensor("q", q).On(device).Is(dtype).Shape({n, heads, dim}).LastDimDense();`
/// Nothing is allocated unless a check fails.
class CheckTensor {
 public:
  /// A tensor must be defined unless the caller asked first.
  CheckTensor(std::string_view name, const TensorView& tensor);

  const CheckTensor& On(Device device) const;
  /// For the first tensor of an operator that no GPU kernel is there for: kUnsupported elsewhere.
  const CheckTensor& OnCpuAlone() const;
  const CheckTensor& Is(DType dtype) const;
  const CheckTensor& IsOneOf(std::initializer_list<DType> dtypes) const;
  const CheckTensor& Rank(int rank) const;
  /// Negative sizes match anything.
  const CheckTensor& Shape(const Dims& shape) const;
  /// The last dimension's elements are adjacent.
  const CheckTensor& LastDimDense() const;
  const CheckTensor& Contiguous() const;
  /// No two elements share memory: needed of outputs. Sufficient condition by sorted strides.
  const CheckTensor& NoOverlap() const;
  /// Shares no memory with an argument that is read while this one is written. What is no tensor
  /// shares none. Overlaps that SharesMemory() gives up on are not found.
  const CheckTensor& Apart(std::string_view other_name, const TensorView& other) const;
  /// The same, or is that argument exactly: the operator works in place.
  const CheckTensor& ApartOrSame(std::string_view other_name, const TensorView& other) const;

 private:
  std::string_view name_;
  const TensorView& tensor_;
};

/// Checks that an indptr of host memory, [n + 1] i32, starts at 0 and never falls.
void CheckIndptr(std::string_view name, const TensorView& indptr);

}  // namespace flashinfer
