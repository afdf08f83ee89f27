// SPDX-License-Identifier: Apache-2.0
// The vector layer of every instruction set that this CPU has: error bounds, conversions, edges.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "unit/simd_probe.h"

namespace flashinfer::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Named {
  std::string name;
  const SimdProbe* probe;
};

std::vector<Named> Probes() {
  std::vector<Named> probes;
#define FLASHINFER_ADD(isa, name) \
  if (IsaAvailable<Isa::isa>(nullptr)) probes.push_back({#name, &name::Probe()});
  FLASHINFER_FOR_EACH_ISA(FLASHINFER_ADD)
#undef FLASHINFER_ADD
  return probes;
}

std::vector<float> Grid(float low, float high, int count) {
  std::vector<float> x;
  for (int i = 0; i <= count; ++i) {
    x.push_back(low + (high - low) * static_cast<float>(i) / static_cast<float>(count));
  }
  return x;
}

using Function = void (*)(const float*, float*, int64_t);

std::vector<float> Apply(Function function, const std::vector<float>& x) {
  std::vector<float> out(x.size(), kNan);
  function(x.data(), out.data(), static_cast<int64_t>(x.size()));
  return out;
}

TEST(Simd, Exp2IsRightToTwoInTenMillion) {
  const std::vector<float> x = Grid(-126, 127.99f, 1000003);
  for (const auto& [name, probe] : Probes()) {
    const std::vector<float> y = Apply(probe->exp2, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double right = std::exp2(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - right) / right);
    }
    EXPECT_LT(worst, 2e-7) << name;
    EXPECT_EQ(Apply(probe->exp2,
                    {0, 1, -1, 10, -126, 127, 128, 1e30f, kInfinity, -126.1f, -1e30f, -kInfinity}),
              (std::vector<float>{1, 2, 0.5f, 1024, 1.17549435e-38f, 1.70141183e38f, kInfinity,
                                  kInfinity, kInfinity, 0, 0, 0}))
        << name;
    EXPECT_TRUE(std::isnan(Apply(probe->exp2, {kNan})[0])) << name;
  }
}

TEST(Simd, ExpTanhSigmoidStayWithinTheirBounds) {
  const std::vector<float> x = Grid(-80, 80, 1000003);
  for (const auto& [name, probe] : Probes()) {
    const std::vector<float> exp = Apply(probe->exp, x);
    const std::vector<float> tanh = Apply(probe->tanh, x);
    const std::vector<float> sigmoid = Apply(probe->sigmoid, x);
    double worst_tanh = 0;
    double worst_sigmoid = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double right = std::exp(static_cast<double>(x[i]));
      // Rounding x · log2(e) to a float moves the exponent by |x| · 2^-24.
      ASSERT_NEAR(exp[i] / right, 1, 2e-7 + 1.2e-7 * std::abs(x[i])) << name << " " << x[i];
      worst_tanh = std::max(worst_tanh, std::abs(tanh[i] - std::tanh(static_cast<double>(x[i]))));
      worst_sigmoid = std::max(worst_sigmoid, std::abs(sigmoid[i] - right / (1 + right)));
    }
    EXPECT_LT(worst_tanh, 2e-7) << name;
    EXPECT_LT(worst_sigmoid, 2e-7) << name;
    EXPECT_EQ(Apply(probe->tanh, {-kInfinity, -1e30f, 1e30f, kInfinity}),
              (std::vector<float>{-1, -1, 1, 1}))
        << name;
    EXPECT_EQ(Apply(probe->sigmoid, {-kInfinity, 0, kInfinity}), (std::vector<float>{0, 0.5f, 1}))
        << name;
  }
}

TEST(Simd, SineAndCosineOfTurns) {
  const std::vector<float> x = Grid(-0.5f, 0.5f, 1000003);
  for (const auto& [name, probe] : Probes()) {
    std::vector<float> sines(x.size());
    std::vector<float> cosines(x.size());
    probe->sin_cos(x.data(), sines.data(), cosines.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(x[i]);
      worst = std::max(worst, std::abs(sines[i] - std::sin(angle)));
      worst = std::max(worst, std::abs(cosines[i] - std::cos(angle)));
    }
    EXPECT_LT(worst, 2e-7) << name;
  }
}

template <class T>
void ExpectSameAsOneByOne(void (*widen)(const T*, float*, int64_t),
                          void (*narrow)(const float*, T*, int64_t), const std::string& name) {
  std::vector<T> codes;
  for (uint32_t i = 0; i < 1u << (8 * sizeof(T)); ++i) {
    codes.push_back({static_cast<decltype(T::bits)>(i)});
  }
  std::vector<float> widened(codes.size());
  widen(codes.data(), widened.data(), static_cast<int64_t>(codes.size()));
  std::vector<float> values;
  for (size_t i = 0; i < codes.size(); ++i) {
    const float right = ToFloat(codes[i]);
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(widened[i])) << name << " " << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(widened[i]), std::bit_cast<uint32_t>(right)) << name;
    }
    const float half_up = std::bit_cast<float>(std::bit_cast<uint32_t>(right) + 0x8000u);
    const float next = i + 1 < codes.size() ? ToFloat(codes[i + 1]) : right;
    const float tie = (right + next) / 2;
    for (float x : {right, tie, half_up, right * 1.0005f}) {
      for (float y : {x, std::nextafter(x, kInfinity), std::nextafter(x, -kInfinity)}) {
        values.push_back(y);
      }
    }
  }
  std::mt19937 rng(1);
  for (int i = 0; i < 300000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  std::vector<T> narrowed(values.size());
  narrow(values.data(), narrowed.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(ToFloat(narrowed[i]))) << name;
    } else {
      ASSERT_EQ(narrowed[i].bits, FromFloat<T>(values[i]).bits)
          << name << " " << std::hexfloat << values[i];
    }
  }
}

TEST(Simd, ConversionsAreThoseOfOneValueAtATime) {
  for (const auto& [name, probe] : Probes()) {
    for (auto* to : {probe->to_f16, probe->lines_to_f16}) {
      ExpectSameAsOneByOne<F16>(probe->from_f16, to, name);
    }
    for (auto* to : {probe->to_bf16, probe->lines_to_bf16}) {
      ExpectSameAsOneByOne<BF16>(probe->from_bf16, to, name);
    }
    for (auto* to : {probe->to_e4m3, probe->lines_to_e4m3}) {
      ExpectSameAsOneByOne<E4M3>(probe->from_e4m3, to, name);
    }
    for (auto* to : {probe->to_e5m2, probe->lines_to_e5m2}) {
      ExpectSameAsOneByOne<E5M2>(probe->from_e5m2, to, name);
    }
  }
}

/// Memory that ends at a page that may not be touched.
class GuardedEnd {
 public:
  GuardedEnd() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    block_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(block_ + page_, page_, PROT_NONE);
  }
  ~GuardedEnd() { munmap(block_, 2 * page_); }
  template <class T>
  T* Last(int64_t count) {
    return reinterpret_cast<T*>(block_ + page_) - count;
  }

 private:
  size_t page_;
  char* block_;
};

TEST(Simd, PartialVectorsTouchNothingBeyondTheirElements) {
  GuardedEnd in;
  GuardedEnd out;
  for (const auto& [name, probe] : Probes()) {
    for (int64_t n = 0; n <= probe->width + 1; ++n) {
      for (int64_t i = 0; i < n; ++i) {
        in.Last<float>(n)[i] = static_cast<float>(i + 1);
      }
      probe->exp2(in.Last<float>(n), out.Last<float>(n), n);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_FLOAT_EQ(out.Last<float>(n)[i], std::exp2(static_cast<float>(i + 1))) << name;
      }
      probe->to_f16(in.Last<float>(n), out.Last<F16>(n), n);
      std::memcpy(in.Last<F16>(n), out.Last<F16>(n), static_cast<size_t>(n) * sizeof(F16));
      probe->from_f16(in.Last<F16>(n), out.Last<float>(n), n);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out.Last<float>(n)[i], static_cast<float>(i + 1));
      for (int64_t i = 0; i < n; ++i) in.Last<float>(n)[i] = static_cast<float>(i + 1);
      probe->to_bf16(in.Last<float>(n), out.Last<BF16>(n), n);
      std::memcpy(in.Last<BF16>(n), out.Last<BF16>(n), static_cast<size_t>(n) * sizeof(BF16));
      probe->from_bf16(in.Last<BF16>(n), out.Last<float>(n), n);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out.Last<float>(n)[i], static_cast<float>(i + 1));
      for (int64_t i = 0; i < n; ++i) in.Last<float>(n)[i] = static_cast<float>(i % 16 + 1);
      probe->to_e4m3(in.Last<float>(n), out.Last<E4M3>(n), n);
      std::memcpy(in.Last<E4M3>(n), out.Last<E4M3>(n), static_cast<size_t>(n));
      probe->from_e4m3(in.Last<E4M3>(n), out.Last<float>(n), n);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(out.Last<float>(n)[i], static_cast<float>(i % 16 + 1));
      }
    }
  }
}

TEST(Isa, RefusalsSayWhatIsNeededAndWhatIsThere) {
  EXPECT_TRUE(IsaAvailable<Isa::kScalar>(nullptr));
  std::string why;
  if (!IsaAvailable<Isa::kAvx512Bf16>(&why)) {
    EXPECT_TRUE(why.starts_with("needs avx512_bf16, ")) << why;
    EXPECT_NE(why.find(Name(BestIsa())), std::string::npos) << why;
  }
  EXPECT_TRUE(Isa::kScalar <= BestIsa());
}

}  // namespace
}  // namespace flashinfer::cpu
