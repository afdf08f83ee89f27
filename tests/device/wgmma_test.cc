// SPDX-License-Identifier: Apache-2.0
// wgmma of every width, type and layout against loops, exact on small integers; setmaxnreg.
#include "core/convert.h"
#include "device/probe.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/wgmma_probe.cuh";

Probe Of(const std::string& function, int32_t smem_bytes, int32_t num_threads = 128) {
  return {.function = function,
          .header = kHeader,
          .min_arch = 90,
          .only_arch = 90,
          .num_threads = num_threads,
          .smem_bytes = smem_bytes};
}
Probe KMajor(const char* dtype, int n, int span) {
  return Of(fmt::format("WgmmaKMajor<DType::{}, {}, {}>", dtype, n, span), (64 + n) * 128);
}
Probe MnMajor(const char* dtype, int n) {
  return Of(fmt::format("WgmmaMnMajor<DType::{}, {}>", dtype, n), 64 * 128 + 64 * n * 2);
}
Probe Registers(const char* dtype, int n) {
  return Of(fmt::format("WgmmaRegisters<DType::{}, {}>", dtype, n), n * 128);
}
const Probe kMoveRegisters = Of("MoveRegisters", 0, 256);

constexpr std::array kWidths{8, 16, 32, 64, 96, 128, 176, 192, 256};

TEST(WgmmaTest, Compiles) {
  std::vector<Probe> probes{
      kMoveRegisters,          KMajor("kF16", 64, 128),   KMajor("kBF16", 64, 64),
      KMajor("kBF16", 64, 32), KMajor("kE4M3", 128, 128), KMajor("kE5M2", 64, 128),
      MnMajor("kBF16", 64),    MnMajor("kF16", 128),      Registers("kE4M3", 64),
      Registers("kF16", 64)};
  for (const int n : kWidths) {
    probes.push_back(KMajor("kBF16", n, 128));
    probes.push_back(Registers("kBF16", n));
  }
  ExpectCompiles(probes);
}

/// Values [rows, k], small integers as T.
template <class T>
struct Operand {
  Operand(size_t rows, size_t k, std::mt19937& random) : values(rows * k), bits(rows * k), k(k) {
    std::uniform_int_distribution<int> uniform(-3, 3);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = uniform(random);
      bits[i] = FromFloat<T>(static_cast<float>(values[i]));
    }
  }
  std::vector<T> Transposed() const {
    const size_t rows = bits.size() / k;
    std::vector<T> out(bits.size());
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < k; ++i) out[i * rows + row] = bits[row * k + i];
    }
    return out;
  }
  std::vector<int> values;
  std::vector<T> bits;
  size_t k;
};

template <class T>
void ExpectProduct(const Probe& probe, size_t n, bool is_mn_major = false) {
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  constexpr size_t kDepth = 128 / sizeof(T);
  const Operand<T> a(64, kDepth, random), b(n, kDepth, random);
  const Buffer a_buffer(is_mn_major ? a.Transposed() : a.bits);
  const Buffer b_buffer(is_mn_major ? b.Transposed() : b.bits);
  const Buffer out(64 * n * 4);
  Launch(probe, {.a = a_buffer.data(), .b = b_buffer.data(), .out = out.data()});
  const auto got = out.Read<float>();
  for (size_t row = 0; row < 64; ++row) {
    for (size_t column = 0; column < n; ++column) {
      int sum = 0;
      for (size_t i = 0; i < kDepth; ++i) {
        sum += a.values[row * kDepth + i] * b.values[column * kDepth + i];
      }
      ASSERT_EQ(got[row * n + column], static_cast<float>(sum))
          << probe.function << ": " << row << ", " << column;
    }
  }
}

TEST(WgmmaTest, EveryWidth) {
  for (const int n : kWidths) {
    ExpectProduct<BF16>(KMajor("kBF16", n, 128), static_cast<size_t>(n));
    ExpectProduct<BF16>(Registers("kBF16", n), static_cast<size_t>(n));
  }
}
TEST(WgmmaTest, EveryType) {
  ExpectProduct<F16>(KMajor("kF16", 64, 128), 64);
  ExpectProduct<E4M3>(KMajor("kE4M3", 128, 128), 128);
  ExpectProduct<E5M2>(KMajor("kE5M2", 64, 128), 64);
  ExpectProduct<F16>(Registers("kF16", 64), 64);
  ExpectProduct<E4M3>(Registers("kE4M3", 64), 64);
}
TEST(WgmmaTest, EverySwizzle) {
  ExpectProduct<BF16>(KMajor("kBF16", 64, 64), 64);
  ExpectProduct<BF16>(KMajor("kBF16", 64, 32), 64);
}
TEST(WgmmaTest, MnMajor) {
  ExpectProduct<BF16>(MnMajor("kBF16", 64), 64, true);
  ExpectProduct<F16>(MnMajor("kF16", 128), 128, true);
}

TEST(WgmmaTest, RegistersMove) {
  if (const std::string why = WhyNot(kMoveRegisters); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint32_t> a(180 * 128);
  for (uint32_t& x : a) x = static_cast<uint32_t>(random());
  const Buffer a_buffer(a), out(256 * 4);
  Launch(kMoveRegisters, {.a = a_buffer.data(), .out = out.data()});
  const auto got = out.Read<uint32_t>();
  for (size_t lane = 0; lane < 128; ++lane) {
    uint32_t sum = 0;
    for (size_t i = 0; i < 180; ++i) sum += a[i * 128 + lane];
    EXPECT_EQ(got[lane], sum);
    EXPECT_EQ(got[128 + lane], sum);
  }
}

}  // namespace
}  // namespace flashinfer::probe
