// SPDX-License-Identifier: Apache-2.0
// Conversions against the host's exact ones, every code of every format; functions within their
// bounds.
#include <bit>
#include <cmath>

#include "core/convert.h"
#include "device/probe.h"

namespace flashinfer::probe {
namespace {

Probe Of(const std::string& function) {
  return {.function = function, .header = "device/element_probe.cuh", .num_threads = 256};
}

std::vector<Probe> Probes() {
  std::vector<Probe> probes{Of("NarrowInSoftware"), Of("WidenE4m3InSoftware"),
                            Of("NarrowE2m1<true>"), Of("NarrowE2m1<false>"), Of("WidenE2m1")};
  for (const char* dtype : {"kF16", "kBF16", "kE4M3", "kE5M2", "kI8"}) {
    probes.push_back(Of(fmt::format("Widen<DType::{}>", dtype)));
    probes.push_back(Of(fmt::format("Narrow<DType::{}>", dtype)));
  }
  for (const char* f : {"kEx2", "kLg2", "kRcp", "kRsqrt", "kTanh", "kSoftCap30"}) {
    probes.push_back(Of(fmt::format("Apply<Function::{}>", f)));
  }
  return probes;
}

TEST(ElementTest, Compiles) { ExpectCompiles(Probes()); }

template <class Out, class In>
std::vector<Out> RunOn(const Probe& probe, const std::vector<In>& in, size_t num_threads,
                       size_t out_bytes) {
  const Buffer in_buffer(in), out(out_bytes);
  Launch(probe,
         {.a = in_buffer.data(), .out = out.data(), .size = static_cast<int64_t>(num_threads)},
         {.grid_x = static_cast<int64_t>(num_threads + 255) / 256});
  return out.Read<Out>();
}

/// Same bits, or NaN on both sides.
void ExpectSame(float got, float expected, uint32_t code) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << code;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected)) << code;
  }
}

template <class T>
float ValueOf(T x) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<float>(x);
  } else {
    return ToFloat(x);
  }
}

template <class T>
T NearestOf(float x) {
  if constexpr (std::is_same_v<T, int8_t>) {
    if (std::isnan(x)) return 0;
    return static_cast<int8_t>(std::clamp(std::nearbyint(x), -128.0f, 127.0f));
  } else {
    return FromFloat<T>(x);
  }
}

/// Every code, in all places of a word.
template <class T>
std::vector<T> AllCodes() {
  std::vector<T> codes;
  for (uint32_t place = 0; place < 4; ++place) {
    for (uint32_t code = 0; code < (1u << (8 * sizeof(T))); ++code) {
      codes.push_back(std::bit_cast<T>(
          static_cast<std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>>(code + place)));
    }
  }
  return codes;
}

/// Values around every code and between neighbours, random ones of every size, and specials.
template <class T>
std::vector<float> HardValues() {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 3e38f, -3e38f};
  for (T code : AllCodes<T>()) {
    const float x = ValueOf(code);
    const float next = ValueOf(NearestOf<T>(std::nextafter(x * 1.07f, INFINITY)));
    for (float y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY), (x + next) / 2}) {
      values.push_back(y);
    }
  }
  std::mt19937 random = Random();
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(uint32_t(random())));
  while (values.size() % 4 != 0) values.push_back(1.0f);
  return values;
}

template <class T>
void ExpectConverts(const std::string& dtype) {
  const Probe widen = Of(fmt::format("Widen<DType::{}>", dtype));
  const Probe narrow = Of(fmt::format("Narrow<DType::{}>", dtype));
  if (const std::string why = WhyNot(widen); !why.empty()) GTEST_SKIP() << why;
  const std::vector<T> codes = AllCodes<T>();
  const auto wide = RunOn<float>(widen, codes, codes.size() * sizeof(T) / 4, codes.size() * 4);
  for (size_t i = 0; i < codes.size(); ++i) {
    ExpectSame(wide[i], ValueOf(codes[i]), static_cast<uint32_t>(i));
  }
  const std::vector<float> values = HardValues<T>();
  const auto narrowed =
      RunOn<T>(narrow, values, values.size() * sizeof(T) / 4, values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    ExpectSame(ValueOf(narrowed[i]), ValueOf(NearestOf<T>(values[i])),
               std::bit_cast<uint32_t>(values[i]));
  }
}

TEST(ElementTest, F16) { ExpectConverts<F16>("kF16"); }
TEST(ElementTest, BF16) { ExpectConverts<BF16>("kBF16"); }
TEST(ElementTest, E4M3) { ExpectConverts<E4M3>("kE4M3"); }
TEST(ElementTest, E5M2) { ExpectConverts<E5M2>("kE5M2"); }
TEST(ElementTest, I8) { ExpectConverts<int8_t>("kI8"); }

TEST(ElementTest, InSoftware) {
  const Probe narrow = Of("NarrowInSoftware");
  const Probe widen = Of("WidenE4m3InSoftware");
  if (const std::string why = WhyNot(narrow); !why.empty()) GTEST_SKIP() << why;
  std::vector<float> values = HardValues<E4M3>();
  for (const auto& more : {HardValues<E5M2>(), HardValues<BF16>()}) {
    values.insert(values.end(), more.begin(), more.end());
  }
  const auto got = RunOn<uint32_t>(narrow, values, values.size(), values.size() * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto code = std::bit_cast<uint32_t>(values[i]);
    ExpectSame(ToFloat(BF16{static_cast<uint16_t>(got[i])}), ToFloat(FromFloat<BF16>(values[i])),
               code);
    ExpectSame(ToFloat(E4M3{static_cast<uint8_t>(got[i] >> 16)}),
               ToFloat(FromFloat<E4M3>(values[i])), code);
    ExpectSame(ToFloat(E5M2{static_cast<uint8_t>(got[i] >> 24)}),
               ToFloat(FromFloat<E5M2>(values[i])), code);
  }
  const auto codes = AllCodes<E4M3>();
  const auto wide = RunOn<float>(widen, codes, codes.size(), codes.size() * 4);
  for (size_t i = 0; i < codes.size(); ++i) {
    ExpectSame(wide[i], ToFloat(codes[i]), static_cast<uint32_t>(i));
  }
}

TEST(ElementTest, E2M1) {
  const Probe widen = Of("WidenE2m1");
  if (const std::string why = WhyNot(widen); !why.empty()) GTEST_SKIP() << why;
  std::vector<uint8_t> codes(16);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  const auto wide = RunOn<float>(widen, codes, codes.size(), codes.size() * 4);
  for (size_t i = 0; i < codes.size(); ++i) {
    ExpectSame(wide[i], ToFloat(E2M1{codes[i]}), static_cast<uint32_t>(i));
  }
  std::vector<float> values;
  for (float x : HardValues<E2M1>()) {
    if (!std::isnan(x)) values.push_back(x);
  }
  values.resize(values.size() / 8 * 8);
  for (const char* function : {"NarrowE2m1<true>", "NarrowE2m1<false>"}) {
    const auto got = RunOn<uint32_t>(Of(function), values, values.size() / 8, values.size() / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(got[i / 8] >> (i % 8 * 4) & 15, FromFloat<E2M1>(values[i]).bits)
          << function << " " << values[i];
    }
  }
}

template <class Function>
void ExpectWithin(const std::string& name, float from, float to, double relative, double absolute,
                  const std::vector<std::pair<float, float>>& exact, Function&& function) {
  const Probe probe = Of(fmt::format("Apply<Function::{}>", name));
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::uniform_real_distribution<float> uniform(from, to);
  std::vector<float> x;
  x.reserve(exact.size() + 100000);
  for (const auto& [at, value] : exact) x.push_back(at);
  for (int i = 0; i < 100000; ++i) x.push_back(uniform(random));
  const auto got = RunOn<float>(probe, x, x.size(), x.size() * 4);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(got[i], exact[i].second) << name << " of " << x[i];
  }
  for (size_t i = exact.size(); i < x.size(); ++i) {
    const double expected = function(double{x[i]});
    EXPECT_NEAR(got[i], expected, relative * std::abs(expected) + absolute) << name << " " << x[i];
  }
}

TEST(ElementTest, Functions) {
  ExpectWithin("kEx2", -100, 100, 0x1p-22, 0, {{-INFINITY, 0}, {0, 1}, {-200, 0}},
               [](double x) { return std::exp2(x); });
  ExpectWithin("kLg2", 1e-3f, 1e6f, 0x1p-21, 0x1p-21, {{0, -INFINITY}, {1, 0}},
               [](double x) { return std::log2(x); });
  ExpectWithin("kRcp", 1e-3f, 1e6f, 0x1p-22, 0, {{4, 0.25f}, {INFINITY, 0}},
               [](double x) { return 1 / x; });
  ExpectWithin("kRsqrt", 1e-3f, 1e6f, 0x1p-22, 0, {{4, 0.5f}},
               [](double x) { return 1 / std::sqrt(x); });
  ExpectWithin("kTanh", -6, 6, 0x1p-10, 0, {{0, 0}, {INFINITY, 1}, {-INFINITY, -1}},
               [](double x) { return std::tanh(x); });
  ExpectWithin("kSoftCap30", -300, 300, 0, 30 * 0x1p-20, {{0, 0}, {1e30f, 30}, {-1e30f, -30}},
               [](double x) { return 30 * std::tanh(x / 30); });
}

}  // namespace
}  // namespace flashinfer::probe
