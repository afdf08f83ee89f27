// SPDX-License-Identifier: Apache-2.0
// Cuts of rows; what elements of a row weigh, and sums of weights as integers.
#pragma once

#include "kernels/ptx/math.cuh"
#include "kernels/sampling/vocabulary_row.cuh"

namespace flashinfer::kernels::sampling {

/// Keeps values above `value`, and of those that equal it, in the order of their indices,
/// `num_ties` after the first `skip_ties`.
struct Cut {
  float value;
  uint64_t num_ties;
  uint64_t skip_ties;
};

inline constexpr uint64_t kAllTies = 1ull << 40;

__device__ __forceinline__ bool IsShorter(const Cut& a, const Cut& b) {
  return a.value > b.value || (a.value == b.value && a.num_ties < b.num_ties);
}

/// Weights of elements, below 2, and their sums as integers of 2^-shift.
template <bool kAreLogits>
struct Weights {
  float max;     ///< of the row
  float factor;  ///< logits: 2^((x - max) · factor); probabilities: x · factor, a power of two
  float unit;    ///< 2^shift

  /// `scale` is of logits. Probabilities are their own weights where the largest allows it, so that
  /// they can be added before it is known; else it weighs 1 to 2.
  __device__ __forceinline__ Weights(float row_max, float scale, int32_t row_size) : max(row_max) {
    // Sums stay below 2^62: each weight is below 2.
    const int shift = 60 - (32 - __clz(row_size));
    unit = __uint_as_float(static_cast<uint32_t>(127 + shift) << 23);
    factor = scale;
    if constexpr (!kAreLogits) {
      const auto exponent = static_cast<int>(__float_as_uint(row_max) >> 23);
      int inverse = 254 - exponent;
      inverse = inverse < 1 ? 1 : inverse > 254 ? 254 : inverse;
      const bool is_usual = exponent >= 127 - 18 && exponent <= 127;
      factor = is_usual ? 1.0f : __uint_as_float(static_cast<uint32_t>(inverse) << 23);
    }
  }

  __device__ __forceinline__ float operator()(float x) const {
    return kAreLogits ? ptx::ex2_approx((x - max) * factor) : x * factor;
  }
  /// The same, which the compiler takes for others: it would keep the weights of a whole row in
  /// registers from one pass to the next.
  __device__ __forceinline__ Weights Anew() const {
    Weights w = *this;
    ptx::Opaque(w.factor);
    if constexpr (kAreLogits) ptx::Opaque(w.max);
    return w;
  }
  __device__ __forceinline__ uint64_t Quantise(float sum) const {
    return __float2ull_rn(sum * unit);
  }
  /// The value whose weight is about `weight`.
  __device__ __forceinline__ float ValueOf(float weight) const {
    const float inverse = ptx::rcp_approx(factor);
    return kAreLogits ? max + ptx::lg2_approx(weight) * inverse : weight * inverse;
  }
};

/// log2(e) / temperature; temperature 0 is told apart by the caller.
__device__ __forceinline__ float ScaleOf(float temperature) {
  constexpr float kLog2E = 1.44269504088896340736f;
  constexpr float kMaxFloat = 3.402823466e+38f;
  return fminf(kLog2E / temperature, kMaxFloat);
}

}  // namespace flashinfer::kernels::sampling
