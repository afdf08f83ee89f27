// SPDX-License-Identifier: Apache-2.0
// Tensors that tests own, with everything outside the valid elements poisoned.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "flashinfer/tensor.h"

namespace flashinfer::test {

/// Gives memory that starts at a cache line, as frameworks do.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }
  friend bool operator==(LineAllocator, LineAllocator) { return true; }
};

/// A CPU tensor of any strides. All bytes start as 0xff, which is NaN in every floating-point type:
/// an element that was never written, or memory between elements that is read, shows in the result.
class HostTensor {
 public:
  using Bytes = std::vector<uint8_t, LineAllocator<uint8_t>>;

  HostTensor(DType dtype, Dims shape);
  /// Strides count elements and are not negative; `offset` elements precede the first.
  HostTensor(DType dtype, Dims shape, Dims strides, int64_t offset = 0);

  HostTensor(HostTensor&&) = default;
  HostTensor& operator=(HostTensor&&) = default;
  HostTensor(const HostTensor&) = delete;  // the view points into the bytes
  HostTensor& operator=(const HostTensor&) = delete;

  /// Another one of the same layout and bytes.
  HostTensor Clone() const;

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT(google-explicit-constructor)

  /// Value at an index, of full rank.
  double At(std::initializer_list<int64_t> index) const;
  void Set(std::initializer_list<int64_t> index, double value);

  /// Fills with N(0, 1), or scaled, rounded to the dtype.
  HostTensor& FillNormal(std::mt19937_64& rng, double scale = 1.0);
  HostTensor& FillUniform(std::mt19937_64& rng, double low, double high);
  HostTensor& Fill(double value);
  HostTensor& FillWith(std::initializer_list<double> values);

  /// Elements in row-major order.
  std::vector<double> Values() const;
  /// All bytes, padding included: two tensors are bit-equal when these are.
  const Bytes& bytes() const { return *bytes_; }
  /// For copies elsewhere that outlive the tensor.
  std::shared_ptr<const Bytes> SharedBytes() const { return bytes_; }

 private:
  std::shared_ptr<Bytes> bytes_;
  TensorView view_;
};

/// Whether the bytes between and around the elements are still poison.
bool PaddingIsUntouched(const HostTensor& tensor);

}  // namespace flashinfer::test
