// SPDX-License-Identifier: Apache-2.0
// A unit of 32 quantised weights: loaded by a thread, its quants as signed bytes, its scales as
// f32.
#pragma once

#include "kernels/linear/weight_planes.h"
#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/integer.cuh"
#include "kernels/ptx/memory.cuh"

namespace flashinfer::kernels::linear {

/// Eight quants as signed bytes, QuantOffset() not yet subtracted.
struct QuantWords {
  uint32_t low;   ///< values 4j .. 4j + 3 of a unit
  uint32_t high;  ///< values 16 + 4j .. 16 + 4j + 3
};

/// Codes of e2m1 as twice their values.
__device__ __forceinline__ QuantWords ExpandE2m1(uint32_t codes) {
  constexpr uint32_t kSmall = 0x03020100;  // 0, 0.5, 1, 1.5
  constexpr uint32_t kLarge = 0x0c080604;  // 2, 3, 4, 6
  const uint32_t sizes = codes & 0x77777777u;
  // Bytes: low nibble, high nibble of bytes 0 and 1; of bytes 2 and 3.
  const uint32_t first = ptx::prmt(kSmall, kLarge, sizes);
  const uint32_t second = ptx::prmt(kSmall, kLarge, sizes >> 16);
  const auto with_signs = [](uint32_t values, uint32_t signs) {
    const uint32_t mask = ptx::prmt(signs, 0, 0xba98);
    const uint32_t negative = (0x80808080u - values) ^ 0x80808080u;
    return (values & ~mask) | (negative & mask);
  };
  return {with_signs(ptx::prmt(first, second, 0x6420), codes << 4),
          with_signs(ptx::prmt(first, second, 0x7531), codes)};
}

/// Word j (0 to 3) of the planes `quants` and `extra` of a unit. `extra` is the whole unit's.
template <WeightFormat kFormat>
__device__ __forceinline__ QuantWords Expand(uint32_t quants, const uint32_t* extra, int j) {
  if constexpr (kFormat == WeightFormat::kQ8_0) {
    return {quants, extra[j]};
  } else if constexpr (kFormat == WeightFormat::kMXFP4) {
    return ExpandE2m1(quants);
  } else {
    QuantWords words = {quants & 0x0f0f0f0fu, (quants >> 4) & 0x0f0f0f0fu};
    if constexpr (HasFifthBits(kFormat)) {
      words.low |= (extra[0] << (4 - j)) & 0x10101010u;
      words.high |= (extra[0] >> j) & 0x10101010u;
    } else if constexpr (kFormat == WeightFormat::kQ6_K) {
      const int turn = 4 - 2 * j;  // what wraps around is masked out
      words.low |= __funnelshift_l(extra[0], extra[0], turn) & 0x30303030u;
      words.high |= __funnelshift_l(extra[1], extra[1], turn) & 0x30303030u;
    }
    return words;
  }
}

/// value = scale · (quant - offset) + minimum; Q6_K: scale is that of values 0..15, minimum the
/// scale of values 16..31.
struct UnitScales {
  float scale;
  float minimum;
};

/// 2^(exponent - 128), for quants of twice the value.
__device__ __forceinline__ float HalfPower(uint32_t exponent) {
  return __uint_as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

/// From the words of the planes `scales` and `supers`.
template <WeightFormat kFormat>
__device__ __forceinline__ UnitScales DecodeScales(uint32_t scales, uint32_t supers) {
  if constexpr (kFormat == WeightFormat::kMXFP4) {
    return {HalfPower(scales), 0};
  } else if constexpr (kFormat == WeightFormat::kQ6_K) {
    const float d = ptx::cvt_f32_f16x2(supers).x;
    const auto low = static_cast<int8_t>(scales & 0xff);
    const auto high = static_cast<int8_t>(scales >> 8);
    return {d * static_cast<float>(low), d * static_cast<float>(high)};
  } else if constexpr (HasSupers(kFormat)) {
    const ptx::Float2 d = ptx::cvt_f32_f16x2(supers);
    return {d.x * static_cast<float>(scales & 0xff), -d.y * static_cast<float>(scales >> 8)};
  } else {
    const ptx::Float2 d = ptx::cvt_f32_f16x2(scales);
    return {d.x, HasMinimum(kFormat) ? d.y : 0};
  }
}

/// Words of the planes `scales` and `supers`, for the unit of this index, counted over all rows.
template <WeightFormat kFormat>
struct ScaleWords {
  static constexpr WeightPlaneBytes kBytes = PlaneBytesOf(kFormat);
  uint32_t scales;
  uint32_t supers;

  __device__ __forceinline__ void Load(const WeightPlanes& planes, uint32_t unit) {
    if constexpr (kBytes.plane[2] > 0) {
      scales = ptx::ld<kBytes.plane[2]>(planes.scales + uint64_t{unit} * kBytes.plane[2]).w[0];
    }
    if constexpr (kBytes.plane[3] > 0) {
      supers = ptx::ld<kBytes.plane[3]>(planes.supers +
                                        uint64_t{unit / kUnitsPerSuper} * kBytes.plane[3])
                   .w[0];
    }
  }
  __device__ __forceinline__ UnitScales Decode() const {
    return DecodeScales<kFormat>(scales, supers);
  }
};

/// One unit as it lies in memory.
template <WeightFormat kFormat>
struct WeightUnit {
  static constexpr WeightPlaneBytes kBytes = PlaneBytesOf(kFormat);
  static constexpr int kExtraBytes = kBytes.plane[1] == 0 ? 4 : kBytes.plane[1];

  ptx::Words<16> quants;
  ptx::Words<kExtraBytes> extra;
  ScaleWords<kFormat> scales;

  /// The unit of this index, counted over all rows.
  __device__ __forceinline__ void Load(const WeightPlanes& planes, uint32_t unit) {
    quants = ptx::ld<16>(planes.quants + uint64_t{unit} * 16);
    if constexpr (kBytes.plane[1] > 0) {
      extra = ptx::ld<kExtraBytes>(planes.extra + uint64_t{unit} * kExtraBytes);
    }
    scales.Load(planes, unit);
  }

  __device__ __forceinline__ QuantWords Words(int j) const {
    return Expand<kFormat>(quants.w[j], extra.w, j);
  }
  __device__ __forceinline__ UnitScales Scales() const { return scales.Decode(); }
};

}  // namespace flashinfer::kernels::linear
