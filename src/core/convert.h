// SPDX-License-Identifier: Apache-2.0
// Exact conversions between float and the narrow floating-point types, one value at a time.
#pragma once

#include <bit>
#include <cstdint>

namespace flashinfer {

/// A float stored in a narrow format: `Bits` are the stored ones.
template <class Tag, class Bits>
struct NarrowFloat {
  Bits bits;
  friend constexpr bool operator==(NarrowFloat, NarrowFloat) = default;
};
using F16 = NarrowFloat<struct F16Tag, uint16_t>;
using BF16 = NarrowFloat<struct BF16Tag, uint16_t>;
using E4M3 = NarrowFloat<struct E4M3Tag, uint8_t>;
using E5M2 = NarrowFloat<struct E5M2Tag, uint8_t>;
using E2M1 = NarrowFloat<struct E2M1Tag, uint8_t>;  ///< one value in the low nibble
using E8M0 = NarrowFloat<struct E8M0Tag, uint8_t>;

namespace convert_detail {

/// Rounds |x| to a format of kMantissa bits with smallest normal exponent kMinExponent, ties to
/// even, and returns its exponent and mantissa fields as one integer; the caller saturates. `x` is
/// finite and not negative.
template <int kMantissa, int kMinExponent>
constexpr uint32_t RoundMagnitude(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + kMinExponent) << 23;
  if (bits < kMinNormal) {
    // Adding 2^(kMinExponent - kMantissa + 23) leaves the wanted bits at the mantissa's end.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + kMinExponent - kMantissa + 23) << 23;
    return std::bit_cast<uint32_t>(x + std::bit_cast<float>(kMagic)) - kMagic;
  }
  constexpr int kShift = 23 - kMantissa;
  const uint32_t rounded = bits + ((1u << (kShift - 1)) - 1) + ((bits >> kShift) & 1u);
  return (rounded >> kShift) - (static_cast<uint32_t>(127 + kMinExponent - 1) << kMantissa);
}

/// Value of exponent and mantissa fields; the caller handles sign and special codes.
template <int kMantissa, int kMinExponent>
constexpr float Magnitude(uint32_t fields) {
  if ((fields >> kMantissa) == 0) {
    constexpr uint32_t kUnit = static_cast<uint32_t>(127 + kMinExponent - kMantissa) << 23;
    return static_cast<float>(fields) * std::bit_cast<float>(kUnit);
  }
  return std::bit_cast<float>((fields << (23 - kMantissa)) +
                              (static_cast<uint32_t>(127 + kMinExponent - 1) << 23));
}

constexpr float WithSign(float magnitude, bool negative) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (negative ? 0x80000000u : 0u));
}
constexpr uint32_t AbsBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }
constexpr uint32_t Sign(float x) { return std::bit_cast<uint32_t>(x) >> 31; }
inline constexpr uint32_t kInfBits = 0x7f800000u;

}  // namespace convert_detail

constexpr float ToFloat(float x) { return x; }
constexpr float ToFloat(int8_t x) { return static_cast<float>(x); }

constexpr float ToFloat(BF16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

constexpr float ToFloat(F16 x) {
  namespace d = convert_detail;
  const uint32_t fields = x.bits & 0x7fffu;
  float magnitude = 0;
  if (fields >= 0x7c00u) {
    magnitude = std::bit_cast<float>(d::kInfBits | ((fields & 0x3ffu) << 13));
  } else {
    magnitude = d::Magnitude<10, -14>(fields);
  }
  return d::WithSign(magnitude, (x.bits >> 15) != 0);
}

constexpr float ToFloat(E4M3 x) {
  namespace d = convert_detail;
  const uint32_t fields = x.bits & 0x7fu;
  const float magnitude =
      fields == 0x7fu ? std::bit_cast<float>(0x7fc00000u) : d::Magnitude<3, -6>(fields);
  return d::WithSign(magnitude, (x.bits >> 7) != 0);
}

constexpr float ToFloat(E5M2 x) { return ToFloat(F16{static_cast<uint16_t>(x.bits << 8)}); }

constexpr float ToFloat(E2M1 x) {
  return convert_detail::WithSign(convert_detail::Magnitude<1, 0>(x.bits & 7u), (x.bits & 8u) != 0);
}

/// 2^(bits - 127); 255 is NaN.
constexpr float ToFloat(E8M0 x) {
  if (x.bits == 255) return std::bit_cast<float>(0x7fc00000u);
  if (x.bits == 0) return std::bit_cast<float>(0x00400000u);  // 2^-127, a subnormal
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 23);
}

/// Narrows a float, rounding to nearest, ties to even. F16 and BF16 follow IEEE (too large becomes
/// infinity); fp8 and fp4 saturate: too large and infinite values become the largest finite one,
/// NaN stays NaN in fp8 and becomes +6 in E2M1, which has none. E8M0 takes the nearest power of
/// two, clamped to 2^-127 … 2^127; negative values and NaN become its NaN.
template <class T>
constexpr T FromFloat(float x);

template <>
constexpr float FromFloat<float>(float x) {
  return x;
}

template <>
constexpr BF16 FromFloat<BF16>(float x) {
  namespace d = convert_detail;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (d::AbsBits(x) > d::kInfBits) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
constexpr F16 FromFloat<F16>(float x) {
  namespace d = convert_detail;
  const uint32_t sign = d::Sign(x) << 15;
  const uint32_t bits = d::AbsBits(x);
  if (bits > d::kInfBits) {
    return {static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu))};
  }
  uint32_t fields = 0x7c00u;
  if (bits < (static_cast<uint32_t>(127 + 16) << 23)) {
    fields = d::RoundMagnitude<10, -14>(std::bit_cast<float>(bits));
  }
  return {static_cast<uint16_t>(sign | fields)};
}

namespace convert_detail {

/// Saturating narrowing to a sign bit above kExponentBits + kMantissa fields.
template <int kMantissa, int kMinExponent>
constexpr uint32_t Saturate(float x, uint32_t max_fields, uint32_t nan_fields) {
  const uint32_t bits = AbsBits(x);
  if (bits > kInfBits) return nan_fields;
  const float max = Magnitude<kMantissa, kMinExponent>(max_fields);
  if (std::bit_cast<float>(bits) >= max) return max_fields;
  return RoundMagnitude<kMantissa, kMinExponent>(std::bit_cast<float>(bits));
}

}  // namespace convert_detail

template <>
constexpr E4M3 FromFloat<E4M3>(float x) {
  namespace d = convert_detail;
  return {static_cast<uint8_t>((d::Sign(x) << 7) | d::Saturate<3, -6>(x, 0x7e, 0x7f))};
}

template <>
constexpr E5M2 FromFloat<E5M2>(float x) {
  namespace d = convert_detail;
  return {static_cast<uint8_t>((d::Sign(x) << 7) | d::Saturate<2, -14>(x, 0x7b, 0x7e))};
}

template <>
constexpr E2M1 FromFloat<E2M1>(float x) {
  namespace d = convert_detail;
  if (d::AbsBits(x) > d::kInfBits) return {7};
  return {static_cast<uint8_t>((d::Sign(x) << 3) | d::Saturate<1, 0>(x, 7, 7))};
}

template <>
constexpr E8M0 FromFloat<E8M0>(float x) {
  namespace d = convert_detail;
  const uint32_t bits = d::AbsBits(x);  // -0 is 0
  if (bits > d::kInfBits || (d::Sign(x) != 0 && bits != 0)) return {255};
  if (bits >= (254u << 23)) return {254};
  // Nearest on the linear scale; a tie (1.5 · 2^n) goes to the even exponent field.
  const uint32_t exponent = bits >> 23;
  const uint32_t mantissa = bits & 0x7fffffu;
  if (exponent == 0) return {static_cast<uint8_t>(mantissa > 0x600000u ? 1 : 0)};
  const bool up = mantissa > 0x400000u || (mantissa == 0x400000u && (exponent & 1u) != 0);
  return {static_cast<uint8_t>(exponent + (up ? 1 : 0))};
}

}  // namespace flashinfer
