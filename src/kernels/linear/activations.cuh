// SPDX-License-Identifier: Apache-2.0
// A block's activations in shared memory, in units as the weights have them: f32 for plain weights;
// rounded to 8 bits for quantised ones.
#pragma once

#include "kernels/linear/linear_spec.h"
#include "kernels/ptx/integer.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::linear {

/// Below this 127 / magnitude is not finite in f32: such values become 0.
inline constexpr float kSmallestMagnitude = 4e-37f;

/// Eight neighbouring values of a unit, rounded: x = scale · quant, quants in -127..127. Where the
/// unit has a value that is not finite the scale is NaN, whatever the quants are.
struct RoundedValues {
  uint32_t words[2];
  float scale;
  int32_t sum;  ///< of the eight quants
};

/// Four neighbouring threads call it with the 32 values of a unit.
__device__ __forceinline__ RoundedValues RoundTo8Bits(const float (&x)[8]) {
  // As integers, so that infinities and NaNs are larger than all else.
  uint32_t bits = 0;
#pragma unroll
  for (float value : x) bits = max(bits, __float_as_uint(value) & 0x7fffffffu);
  bits = max(bits, __shfl_xor_sync(tile::kFullWarp, bits, 1));
  bits = max(bits, __shfl_xor_sync(tile::kFullWarp, bits, 2));
  const float largest = __uint_as_float(bits);
  const bool is_small = largest < kSmallestMagnitude;
  const float inverse = is_small ? 0.0f : 127.0f * ptx::rcp_approx(largest);
  RoundedValues r;
  r.scale = is_small ? 0.0f : largest * (1.0f / 127.0f);
  if (bits >= 0x7f800000u) r.scale = __uint_as_float(0x7fffffffu);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // The last place of 1.5 * 2^23 is 1: the low byte of the sum's bits is the rounded value.
    uint32_t quants[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      quants[j] = __float_as_uint(fmaf(x[4 * i + j], inverse, 12582912.0f));
    }
    r.words[i] = ptx::prmt(ptx::prmt(quants[0], quants[1], 0x0040),
                           ptx::prmt(quants[2], quants[3], 0x0040), 0x5410);
  }
  r.sum = ptx::dp4a_s32(r.words[0], 0x01010101u, ptx::dp4a_s32(r.words[1], 0x01010101u, 0));
  return r;
}

/// scale · sum of quants, · -offset where the format has one: of all 32 values, and of the 16 that
/// the thread's are among. The four threads of RoundTo8Bits() call it together.
struct RoundedSums {
  float all;
  float half;
};
template <WeightFormat kFormat>
__device__ __forceinline__ RoundedSums SumsOf(const RoundedValues& r) {
  constexpr int kOffset = QuantOffset(kFormat);
  const float factor = kOffset > 0 ? -static_cast<float>(kOffset) * r.scale : r.scale;
  const int half = r.sum + __shfl_xor_sync(tile::kFullWarp, r.sum, 1);
  const int all = half + __shfl_xor_sync(tile::kFullWarp, half, 2);
  return {factor * static_cast<float>(all), factor * static_cast<float>(half)};
}

/// Eight elements of x as f32, zeros from `count` on.
template <DType kDType, int kVectorSize>
__device__ __forceinline__ void LoadValues(const char* x, int count, float (&values)[8]) {
  if constexpr (kVectorSize == 8) {
    tile::Elements<kDType, 8> elements;
    if (count >= 8) {
      elements.Load(x);
      elements.Widen(values);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = i < count ? tile::LoadElement<kDType>(x, i) : 0.0f;
  }
}

/// Eight neighbouring elements of x, on their way to a thread or zeros.
template <DType kDType, int kVectorSize>
class ActivationPart {
 public:
  __device__ __forceinline__ void Load(const char* x, bool is_there) {
    if constexpr (kVectorSize == 8) {
      if (is_there) {
        elements_.Load(x);
      } else {
        elements_ = {};
      }
    } else {
      LoadValues<kDType, 1>(x, is_there ? 8 : 0, values_);
    }
  }
  __device__ __forceinline__ void Widen(float (&values)[8]) const {
    if constexpr (kVectorSize == 8) {
      elements_.Widen(values);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = values_[i];
    }
  }

 private:
  tile::Elements<kDType, kVectorSize> elements_;
  float values_[kVectorSize == 8 ? 1 : 8];
};

/// Activations of `kTokens` tokens, for quantised weights.
template <WeightFormat kFormat, int kTokens, int kUnits>
class QuantizedActivations {
 public:
  static constexpr int kNumSums = NumActivationSums(kFormat);
  static constexpr int kBytes = kTokens * kUnits * ActivationUnitBytes(kFormat);

  __device__ explicit QuantizedActivations(char* shared) : shared_(shared) {}

  /// Values 0..15 and 16..31 of a unit.
  __device__ uint4* Low(int token, int unit) const {
    return reinterpret_cast<uint4*>(shared_) + token * kUnits + unit;
  }
  __device__ uint4* High(int token, int unit) const { return Low(token + kTokens, unit); }
  __device__ float* Scale(int token, int unit) const {
    return reinterpret_cast<float*>(shared_ + 32 * kTokens * kUnits) + token * kUnits + unit;
  }
  /// scale · sum of the quants, · -offset where the format has one; of Q6_K two, `half` 0 and 1.
  __device__ float* Sum(int token, int unit, int half = 0) const {
    return Scale(token + kTokens * (1 + half), unit);
  }

  /// All threads of the block; a barrier must follow.
  template <DType kDType, int kVectorSize, int kThreads>
  __device__ void Fill(const void* x, int64_t stride, int num_tokens) const {
    constexpr int kWork = kTokens * kUnits * 4;
    // Whole warps go round, for the shuffles.
    for (int i = static_cast<int>(threadIdx.x); i < (kWork + 31) / 32 * 32; i += kThreads) {
      const int token = i / (kUnits * 4);
      const int unit = i / 4 % kUnits;
      const int part = i % 4;
      const bool is_there = i < kWork && token < num_tokens;
      ActivationPart<kDType, kVectorSize> loaded;
      loaded.Load(tile::At<kDType>(x, token * stride + unit * 32 + part * 8), is_there);
      float values[8];
      loaded.Widen(values);
      const RoundedValues r = RoundTo8Bits(values);
      const RoundedSums sums = SumsOf<kFormat>(r);
      if (i >= kWork) continue;
      uint4* half = part < 2 ? Low(token, unit) : High(token, unit);
      reinterpret_cast<uint2*>(half)[part % 2] = make_uint2(r.words[0], r.words[1]);
      if (part == 0) *Scale(token, unit) = r.scale;
      if constexpr (kNumSums == 2) {
        if (part % 2 == 0) *Sum(token, unit, part / 2) = sums.half;
      } else if constexpr (kNumSums == 1) {
        if (part == 1) *Sum(token, unit) = sums.all;
      }
    }
  }

 private:
  char* shared_;
};

/// Activations of `kTokens` tokens, for plain weights. A unit's values are spread over planes of
/// four, so that neighbouring threads read neighbouring words.
template <WeightFormat kFormat, int kTokens, int kUnits>
class PlainActivations {
 public:
  static constexpr int kPlanes = UnitValues(kFormat) / 4;
  static constexpr int kBytes = kTokens * kUnits * ActivationUnitBytes(kFormat);

  __device__ explicit PlainActivations(char* shared) : shared_(shared) {}

  __device__ float4* Values(int token, int unit, int plane) const {
    return reinterpret_cast<float4*>(shared_) + (token * kPlanes + plane) * kUnits + unit;
  }

  /// All threads of the block; a barrier must follow.
  template <DType kDType, int kVectorSize, int kThreads>
  __device__ void Fill(const void* x, int64_t stride, int num_tokens, int cols) const {
    constexpr int kPerToken = (kUnits * UnitValues(kFormat) + 7) / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * kPerToken; i += kThreads) {
      const int token = i / kPerToken;
      const int column = i % kPerToken * 8;
      float values[8];
      LoadValues<kDType, kVectorSize>(tile::At<kDType>(x, token * stride + column),
                                      token < num_tokens ? cols - column : 0, values);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = column + 4 * j;
        if (at >= kUnits * UnitValues(kFormat)) continue;
        *Values(token, at / UnitValues(kFormat), at / 4 % kPlanes) =
            make_float4(values[4 * j], values[4 * j + 1], values[4 * j + 2], values[4 * j + 3]);
      }
    }
  }

 private:
  char* shared_;
};

}  // namespace flashinfer::kernels::linear
