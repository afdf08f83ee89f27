// SPDX-License-Identifier: Apache-2.0
// cvt: each conversion by the definition of its format, in double.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

struct Float2 {
  float x;
  float y;
};

inline uint32_t HalfBits(float x) {
  return software_device::BitsAs<uint16_t>(static_cast<_Float16>(x));
}
inline float HalfValue(uint32_t bits) {
  return static_cast<float>(software_device::BitsAs<_Float16>(static_cast<uint16_t>(bits)));
}

inline uint32_t cvt_rn_f16x2_f32(float x, float y) { return HalfBits(x) | HalfBits(y) << 16; }
inline Float2 cvt_f32_f16x2(uint32_t packed) {
  return {HalfValue(packed & 0xffff), HalfValue(packed >> 16)};
}

/// The nearest value with `mantissa` bits, ties to even, as bits of a format of `exponent` bits
/// whose largest finite value has the fields `max_fields`.
inline uint32_t NearestBits(float x, int exponent, int mantissa, uint32_t max_fields,
                            uint32_t nan_fields) {
  const uint32_t sign = std::signbit(x) ? 1u << (exponent + mantissa) : 0;
  if (std::isnan(x)) return sign | nan_fields;
  const int bias = (1 << (exponent - 1)) - 1;
  const double magnitude = std::fabs(static_cast<double>(x));
  int e = magnitude == 0 || std::isinf(magnitude) ? 1 - bias : std::ilogb(magnitude);
  if (e < 1 - bias) e = 1 - bias;
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa - e));
  if (!(units < std::ldexp(1.0, mantissa + 2))) return sign | max_fields;
  // Fields grow evenly with the value within and across binades.
  const auto fields =
      static_cast<uint64_t>(units) + (static_cast<uint64_t>(e + bias - 1) << mantissa);
  return sign | static_cast<uint32_t>(fields < max_fields ? fields : max_fields);
}

inline uint32_t cvt_rn_bf16x2(float x, float y) {
  const auto bits = [](float v) { return NearestBits(v, 8, 7, 0x7f80, 0x7fff); };
  return bits(x) | bits(y) << 16;
}
inline uint16_t cvt_rn_satfinite_e4m3x2(float x, float y) {
  const auto bits = [](float v) { return NearestBits(v, 4, 3, 0x7e, 0x7f); };
  return static_cast<uint16_t>(bits(x) | bits(y) << 8);
}
inline uint16_t cvt_rn_satfinite_e5m2x2(float x, float y) {
  const auto bits = [](float v) { return NearestBits(v, 5, 2, 0x7b, 0x7f); };
  return static_cast<uint16_t>(bits(x) | bits(y) << 8);
}

inline float E4m3Value(uint32_t byte) {
  const uint32_t fields = byte & 0x7f;
  float value =
      std::ldexp(static_cast<float>((fields & 7) + 8), static_cast<int>(fields >> 3) - 10);
  if (fields < 8) value = std::ldexp(static_cast<float>(fields), -9);
  if (fields == 0x7f) value = NAN;
  return (byte & 0x80) != 0 ? -value : value;
}
inline float E5m2Value(uint32_t byte) { return HalfValue(byte << 8); }

inline uint32_t cvt_rn_f16x2_e4m3x2(uint16_t packed) {
  return cvt_rn_f16x2_f32(E4m3Value(packed & 0xff), E4m3Value(packed >> 8));
}

inline uint32_t cvt_rn_satfinite_e2m1x8(const float (&x)[8]) {
  uint32_t packed = 0;
  for (int i = 0; i < 8; ++i) {
    packed |= (std::isnan(x[i]) ? 7u : NearestBits(x[i], 2, 1, 7, 7)) << (4 * i);
  }
  return packed;
}

inline uint32_t sub_f16x2(uint32_t a, uint32_t b) {
  const Float2 x = cvt_f32_f16x2(a), y = cvt_f32_f16x2(b);
  return cvt_rn_f16x2_f32(x.x - y.x, x.y - y.y);
}

inline int32_t cvt_rni_sat_s8_f32(float x) {
  if (std::isnan(x)) return 0;
  const float rounded = std::nearbyint(x);
  return rounded < -128 ? -128 : rounded > 127 ? 127 : static_cast<int32_t>(rounded);
}

}  // namespace flashinfer::kernels::ptx
