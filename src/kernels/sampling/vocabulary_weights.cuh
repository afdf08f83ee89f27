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

/// The smallest integer that is at least `x` · `fraction`, a number from 0 to 1.
__device__ __forceinline__ uint64_t CeilOfProduct(uint64_t x, float fraction) {
  const uint32_t bits = __float_as_uint(fraction);
  const uint32_t exponent = bits >> 23;
  const uint64_t mantissa = (bits & 0x7fffffu) | (exponent == 0 ? 0u : 0x800000u);
  const uint32_t shift = 150 - (exponent == 0 ? 1 : exponent);  // 23 or more
  const uint64_t high = __umul64hi(x, mantissa);
  const uint64_t low = x * mantissa;
  if (shift < 64) {
    const bool has_rest = (low & ((1ull << shift) - 1)) != 0;
    return (high << (64 - shift)) + (low >> shift) + (has_rest ? 1 : 0);
  }
  // The product is below 2^86.
  if (shift >= 86) return (high | low) != 0 ? 1 : 0;
  const bool has_rest = low != 0 || (high & ((1ull << (shift - 64)) - 1)) != 0;
  return (high >> (shift - 64)) + (has_rest ? 1 : 0);
}

/// Elements below this weigh less than `min_p` of the largest.
template <bool kAreLogits>
__device__ __forceinline__ float LimitOfMinP(const Weights<kAreLogits>& weights, float min_p) {
  const float p = fminf(min_p, 1.0f);
  if (p == 1.0f) return weights.max;
  if constexpr (kAreLogits)
    return __fadd_ru(weights.max, __fdiv_ru(ptx::lg2_approx(p), weights.factor));
  return __fmul_ru(p, weights.max);
}

}  // namespace flashinfer::kernels::sampling
