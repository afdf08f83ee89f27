// SPDX-License-Identifier: Apache-2.0
// The non-owning tensor that every operator takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "flashinfer/dtype.h"
#include "flashinfer/export.h"

namespace flashinfer {

/// The text form: `f32`, `f16`, `bf16`, `e4m3`, `e5m2`, `e2m1x2`, `e8m0`, `i8`, `i4x2`, `u8`,
/// `i32`, `i64`, `bool`.
FLASHINFER_API std::string_view Name(DType dtype);

/// Reads a text form; throws kInvalidArgument that lists the accepted ones.
FLASHINFER_API DType ParseDType(std::string_view text);

/// Bytes that one counted element takes: 1 for the two-in-a-byte types.
FLASHINFER_API int64_t SizeBytes(DType dtype);

enum class DeviceType : uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// `cpu`, `cuda:0`.
FLASHINFER_API std::string Name(Device device);

/// The largest rank of a tensor.
inline constexpr int kMaxRank = 6;

/// Sizes or strides of a tensor: a small fixed array, so that views never allocate.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) Append(v);
  }
  explicit constexpr Dims(std::span<const int64_t> values) {
    for (int64_t v : values) Append(v);
  }
  constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  constexpr int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  constexpr const int64_t* begin() const { return values_.data(); }
  constexpr const int64_t* end() const { return values_.data() + rank_; }
  constexpr void Append(int64_t v) {
    if (rank_ >= kMaxRank) RankTooLarge();
    values_[static_cast<size_t>(rank_++)] = v;
  }
  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] FLASHINFER_API static void RankTooLarge();

  std::array<int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

/// A view of memory that somebody else owns, in the shape of DLPack's DLTensor.
///
/// Strides count elements, may be any 64-bit value, and are those of a dense row-major tensor
/// when not given. A default-constructed view is "no tensor": optional arguments take it.
class FLASHINFER_API TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, Dims shape, Device device = {});
  TensorView(void* data, DType dtype, Dims shape, Dims strides, Device device = {});
  /// Inputs are never written through; the const is cast away for a uniform type.
  TensorView(const void* data, DType dtype, Dims shape, Device device = {})
      : TensorView(const_cast<void*>(data), dtype, shape, device) {}
  TensorView(const void* data, DType dtype, Dims shape, Dims strides, Device device = {})
      : TensorView(const_cast<void*>(data), dtype, shape, strides, device) {}

  /// Whether this is a tensor at all (even one of zero elements).
  bool defined() const { return defined_; }
  void* data() const { return data_; }
  template <class T>
  T* data_as() const {
    return static_cast<T*>(data_);
  }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int rank() const { return shape_.rank(); }
  const Dims& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int64_t shape(int i) const { return shape_[i]; }
  int64_t stride(int i) const { return strides_[i]; }

  int64_t num_elements() const;
  /// Dense row-major; size-1 dimensions may have any stride.
  bool is_contiguous() const;
  /// The sub-tensor of one index of the first dimension.
  TensorView operator[](int64_t index) const;
  /// Rows `begin` to `end` (exclusive) of the first dimension.
  TensorView Slice(int64_t begin, int64_t end) const;

 private:
  void* data_ = nullptr;
  Dims shape_;
  Dims strides_;
  Device device_;
  DType dtype_ = DType::kF32;
  bool defined_ = false;
};

/// `bf16[4, 576] strides=[1152, 1] on cpu`; strides are left out where the tensor is dense.
FLASHINFER_API std::string Text(const TensorView& tensor);

}  // namespace flashinfer
