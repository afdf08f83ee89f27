// SPDX-License-Identifier: Apache-2.0
// Conversions by rule, over every code of every 8-bit and 16-bit format and between all neighbours.
#include "core/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace flashinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A binary format with a sign bit, by its numbers.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint32_t max_fields;  ///< exponent and mantissa of the largest finite value
  bool saturates;
};

template <class T>
constexpr Format kFormat{};
template <>
constexpr Format kFormat<F16>{5, 10, 15, 0x7bff, false};
template <>
constexpr Format kFormat<BF16>{8, 7, 127, 0x7f7f, false};
template <>
constexpr Format kFormat<E4M3>{4, 3, 7, 0x7e, true};
template <>
constexpr Format kFormat<E5M2>{5, 2, 15, 0x7b, true};
template <>
constexpr Format kFormat<E2M1>{2, 1, 1, 7, true};

double ValueByRule(const Format& f, uint32_t fields) {
  const auto exponent = static_cast<int>(fields >> f.mantissa_bits);
  const uint32_t mantissa = fields & ((1u << f.mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - f.bias)
                       : std::ldexp(1 + fraction, exponent - f.bias);
}

template <class T>
class ConvertTest : public ::testing::Test {
 protected:
  static constexpr Format kRule = kFormat<T>;
  static constexpr int kSignShift = kRule.exponent_bits + kRule.mantissa_bits;
  static T Code(uint32_t bits) { return {static_cast<decltype(T::bits)>(bits)}; }
};

using Formats = ::testing::Types<F16, BF16, E4M3, E5M2, E2M1>;
TYPED_TEST_SUITE(ConvertTest, Formats);

TYPED_TEST(ConvertTest, EveryFiniteCodeHasItsValueAndComesBack) {
  for (uint32_t fields = 0; fields <= this->kRule.max_fields; ++fields) {
    for (uint32_t sign : {0u, 1u}) {
      const TypeParam code = this->Code(fields | (sign << this->kSignShift));
      const double value = (sign != 0 ? -1 : 1) * ValueByRule(this->kRule, fields);
      ASSERT_EQ(ToFloat(code), value) << fields;
      ASSERT_EQ(std::signbit(ToFloat(code)), sign != 0) << fields;
      ASSERT_EQ(FromFloat<TypeParam>(ToFloat(code)).bits, code.bits) << fields;
    }
  }
}

TYPED_TEST(ConvertTest, BetweenNeighboursTheNearestWinsAndTiesGoToEven) {
  for (uint32_t fields = 0; fields < this->kRule.max_fields; ++fields) {
    const auto low = static_cast<float>(ValueByRule(this->kRule, fields));
    const auto high = static_cast<float>(ValueByRule(this->kRule, fields + 1));
    const float middle = low + (high - low) / 2;
    const uint32_t even = (fields & 1) == 0 ? fields : fields + 1;
    ASSERT_EQ(FromFloat<TypeParam>(middle).bits, even) << fields;
    ASSERT_EQ(FromFloat<TypeParam>(std::nextafter(middle, 0.0f)).bits, fields) << fields;
    ASSERT_EQ(FromFloat<TypeParam>(std::nextafter(middle, kInfinity)).bits, fields + 1) << fields;
    ASSERT_EQ(FromFloat<TypeParam>(-middle).bits, even | (1u << this->kSignShift)) << fields;
  }
}

TYPED_TEST(ConvertTest, BeyondTheLargestValueSaturatesOrBecomesInfinite) {
  const uint32_t max = this->kRule.max_fields;
  const uint32_t beyond = this->kRule.saturates ? max : max + 1;  // max + 1 is infinity
  const double value = ValueByRule(this->kRule, max);
  const double half_step = (value - ValueByRule(this->kRule, max - 1)) / 2;
  const auto first_beyond = static_cast<float>(value + half_step);
  for (float x : {first_beyond, 2 * first_beyond, 3.4e38f, kInfinity}) {
    EXPECT_EQ(FromFloat<TypeParam>(x).bits, beyond) << x;
    EXPECT_EQ(FromFloat<TypeParam>(-x).bits, beyond | (1u << this->kSignShift)) << x;
  }
  EXPECT_EQ(FromFloat<TypeParam>(std::nextafter(first_beyond, 0.0f)).bits, max);
}

TEST(Convert, NanStaysNanButInE2M1WhichHasNone) {
  for (float nan : {kNan, -kNan, std::bit_cast<float>(0x7f800001u)}) {
    EXPECT_TRUE(std::isnan(ToFloat(FromFloat<F16>(nan))));
    EXPECT_TRUE(std::isnan(ToFloat(FromFloat<BF16>(nan))));
    EXPECT_TRUE(std::isnan(ToFloat(FromFloat<E4M3>(nan))));
    EXPECT_TRUE(std::isnan(ToFloat(FromFloat<E5M2>(nan))));
    EXPECT_EQ(FromFloat<E8M0>(nan).bits, 255);
    EXPECT_EQ(ToFloat(FromFloat<E2M1>(nan)), 6);
  }
}

TEST(Convert, CodesThatAreNotFinite) {
  for (uint32_t sign : {0u, 0x8000u}) {
    const float infinity = sign != 0 ? -kInfinity : kInfinity;
    EXPECT_EQ(ToFloat(F16{static_cast<uint16_t>(sign | 0x7c00u)}), infinity);
    EXPECT_EQ(ToFloat(BF16{static_cast<uint16_t>(sign | 0x7f80u)}), infinity);
    EXPECT_EQ(ToFloat(E5M2{static_cast<uint8_t>((sign >> 8) | 0x7cu)}), infinity);
    for (uint32_t i = 0x7c01; i < 0x8000; ++i) {
      EXPECT_TRUE(std::isnan(ToFloat(F16{static_cast<uint16_t>(sign | i)})));
    }
    for (uint32_t i = 0x7f81; i < 0x8000; ++i) {
      EXPECT_TRUE(std::isnan(ToFloat(BF16{static_cast<uint16_t>(sign | i)})));
    }
    for (uint32_t i : {0x7du, 0x7eu, 0x7fu}) {
      EXPECT_TRUE(std::isnan(ToFloat(E5M2{static_cast<uint8_t>((sign >> 8) | i)})));
    }
    EXPECT_TRUE(std::isnan(ToFloat(E4M3{static_cast<uint8_t>((sign >> 8) | 0x7fu)})));
  }
  EXPECT_TRUE(std::isnan(ToFloat(E8M0{255})));
}

TEST(Convert, TinyValuesRoundToZeroWithTheirSign) {
  for (float x : {1e-45f, 1e-40f, -1e-45f, -0.0f}) {
    const float sign = std::signbit(x) ? -0.0f : 0.0f;
    EXPECT_EQ(std::signbit(ToFloat(FromFloat<F16>(x))), std::signbit(sign)) << x;
    EXPECT_EQ(ToFloat(FromFloat<F16>(x)), 0) << x;
    EXPECT_EQ(ToFloat(FromFloat<E4M3>(x)), 0) << x;
    EXPECT_EQ(ToFloat(FromFloat<E5M2>(x)), 0) << x;
    EXPECT_EQ(ToFloat(FromFloat<E2M1>(x)), 0) << x;
  }
}

TEST(Convert, E8M0IsTheNearestPowerOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const auto value = static_cast<float>(std::ldexp(1.0, code - 127));
    const E8M0 scale{static_cast<uint8_t>(code)};
    EXPECT_EQ(ToFloat(scale), value) << code;
    EXPECT_EQ(FromFloat<E8M0>(value).bits, code) << code;
    if (code == 254) break;
    const float tie = value * 1.5f;
    EXPECT_EQ(FromFloat<E8M0>(std::nextafter(tie, 0.0f)).bits, code) << code;
    EXPECT_EQ(FromFloat<E8M0>(tie).bits, code % 2 == 0 ? code : code + 1) << code;
    EXPECT_EQ(FromFloat<E8M0>(std::nextafter(tie, kInfinity)).bits, code + 1) << code;
  }
  EXPECT_EQ(FromFloat<E8M0>(kInfinity).bits, 254);
  EXPECT_EQ(FromFloat<E8M0>(0.0f).bits, 0);
  EXPECT_EQ(FromFloat<E8M0>(-0.0f).bits, 0);
  EXPECT_EQ(FromFloat<E8M0>(1e-45f).bits, 0);
  EXPECT_EQ(FromFloat<E8M0>(-1.0f).bits, 255);
  EXPECT_EQ(FromFloat<E8M0>(-1e-45f).bits, 255);
}

}  // namespace
}  // namespace flashinfer
