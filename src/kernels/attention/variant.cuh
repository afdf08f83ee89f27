// SPDX-License-Identifier: Apache-2.0
// User-written attention variants as kernels see them. Where there is none, nothing of this is left
// in a kernel, nor in the order of its symbols: it includes none of the tile layer.
#pragma once

#include "kernels/attention/variant_position.h"

namespace flashinfer::kernels {

/// Parameters of a kernel with a variant: those that it has anyway, and the variant's.
template <class Base, class Values>
struct VariantKernelParams : Base {
  static_assert(sizeof(Base) % 8 == 0 && alignof(Values) == 8);
  Values variant;
};

/// Attention as it is. Functions, not constants: those would be symbols of every kernel.
struct NoVariant {
  static constexpr bool IsOn() { return false; }
  static constexpr bool UsesSoftmax() { return true; }
  static constexpr bool TransformsQuery() { return false; }
  static constexpr bool TransformsKey() { return false; }
  template <class Base>
  using Params = Base;
};

/// What a score is that is not seen, and what a row's maximum is before its first key.
template <class V>
constexpr float Unseen() {
  return V::UsesSoftmax() ? __builtin_bit_cast(float, 0xff800000u) : 0.0f;
}

/// The LSE of a row, from what it would be; a variant without softmax has none.
template <class V>
__device__ __forceinline__ float LseOf(float lse) {
  return V::UsesSoftmax() ? lse : __builtin_bit_cast(float, 0x7fc00000u);
}

/// A kernel's parameters as those of its variant.
template <class V, class Base>
__device__ __forceinline__ const auto& ValuesOf(const Base& p) {
  return static_cast<const typename V::template Params<Base>&>(p).variant;
}

}  // namespace flashinfer::kernels
