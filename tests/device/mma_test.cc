// SPDX-License-Identifier: Apache-2.0
// mma, ldmatrix, stmatrix, movmatrix, dp4a and prmt against loops. Sums of small integers are
// exact.
#include "core/convert.h"
#include "device/probe.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/mma_probe.cuh";

const Probe kK8{.function = "MmaK8", .header = kHeader};
const Probe kK16F16{.function = "MmaK16<DType::kF16>", .header = kHeader, .min_arch = 80};
const Probe kK16BF16{.function = "MmaK16<DType::kBF16>", .header = kHeader, .min_arch = 80};
const Probe kTranspose{.function = "TransposeMatrix", .header = kHeader};
const Probe kK32S8{.function = "MmaK32S8", .header = kHeader, .min_arch = 80};
const Probe kSumOfK16S8{.function = "SumOfK16S8", .header = kHeader};
const Probe kSumOfK32S8{.function = "SumOfK32S8", .header = kHeader};
const Probe kDotBytes{.function = "DotBytes", .header = kHeader};
const Probe kPermuteBytes{.function = "PermuteBytes", .header = kHeader};

Probe K32(const std::string& a, const std::string& b) {
  return {.function = fmt::format("MmaK32<DType::{}, DType::{}>", a, b),
          .header = kHeader,
          .min_arch = 89};
}

Probe Matrix(const char* function, int count, bool is_transposed, int32_t min_arch) {
  return {.function = fmt::format("{}<{}, ptx::Transposed::{}>", function, count,
                                  is_transposed ? "kYes" : "kNo"),
          .header = kHeader,
          .min_arch = min_arch};
}

std::vector<Probe> Probes() {
  std::vector<Probe> probes{
      kTranspose,           kK8,         kK16F16,   kK16BF16,      kK32S8,
      kSumOfK16S8,          kSumOfK32S8, kDotBytes, kPermuteBytes, K32("kE4M3", "kE4M3"),
      K32("kE5M2", "kE4M3")};
  for (const int count : {1, 2, 4}) {
    for (const bool is_transposed : {false, true}) {
      probes.push_back(Matrix("LoadMatrix", count, is_transposed, 75));
      probes.push_back(Matrix("StoreMatrix", count, is_transposed, 90));
    }
  }
  return probes;
}

TEST(MmaTest, Compiles) { ExpectCompiles(Probes()); }

template <class T>
T Encode(int value) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<int8_t>(value);
  } else {
    return FromFloat<T>(static_cast<float>(value));
  }
}

/// out = A B + 1 for A [16, k] and B [k, 8].
template <class A, class B, class Out>
void ExpectProduct(const Probe& probe, size_t k) {
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::uniform_int_distribution<int> values(-4, 4);
  std::vector<int> a(16 * k), b(8 * k);
  std::vector<A> a_bits(a.size());
  std::vector<B> b_bits(b.size());
  for (size_t i = 0; i < a.size(); ++i) a_bits[i] = Encode<A>(a[i] = values(random));
  for (size_t i = 0; i < b.size(); ++i) b_bits[i] = Encode<B>(b[i] = values(random));
  const Buffer a_buffer(a_bits), b_buffer(b_bits), out(16 * 8 * sizeof(Out));
  Launch(probe, {.a = a_buffer.data(), .b = b_buffer.data(), .out = out.data()});
  const auto got = out.Read<Out>();
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      int sum = 1;
      for (size_t i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
      EXPECT_EQ(got[row * 8 + column], static_cast<Out>(sum)) << row << ", " << column;
    }
  }
}

TEST(MmaTest, K8) { ExpectProduct<F16, F16, float>(kK8, 8); }
TEST(MmaTest, K16F16) { ExpectProduct<F16, F16, float>(kK16F16, 16); }
TEST(MmaTest, K16BF16) { ExpectProduct<BF16, BF16, float>(kK16BF16, 16); }
TEST(MmaTest, K32E4M3) { ExpectProduct<E4M3, E4M3, float>(K32("kE4M3", "kE4M3"), 32); }
TEST(MmaTest, K32E5M2E4M3) { ExpectProduct<E5M2, E4M3, float>(K32("kE5M2", "kE4M3"), 32); }
TEST(MmaTest, K32S8) { ExpectProduct<int8_t, int8_t, int32_t>(kK32S8, 32); }
TEST(MmaTest, SumOfK16S8) { ExpectProduct<int8_t, int8_t, int32_t>(kSumOfK16S8, 16); }
TEST(MmaTest, SumOfK32S8) { ExpectProduct<int8_t, int8_t, int32_t>(kSumOfK32S8, 32); }

TEST(MmaTest, DotBytes) {
  if (const std::string why = WhyNot(kDotBytes); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<int8_t> a(128), b(128);
  for (std::vector<int8_t>* bytes : {&a, &b}) {
    for (int8_t& x : *bytes) x = static_cast<int8_t>(random());
  }
  const Buffer a_buffer(a), b_buffer(b), out(32 * sizeof(int32_t));
  Launch(kDotBytes, {.a = a_buffer.data(), .b = b_buffer.data(), .out = out.data()});
  const auto got = out.Read<int32_t>();
  for (size_t lane = 0; lane < 32; ++lane) {
    auto sum = static_cast<int32_t>(lane);
    for (size_t i = 4 * lane; i < 4 * lane + 4; ++i) sum += a[i] * b[i];
    EXPECT_EQ(got[lane], sum) << lane;
  }
}

TEST(MmaTest, PermuteBytes) {
  if (const std::string why = WhyNot(kPermuteBytes); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint8_t> bytes(256);
  std::vector<uint32_t> selectors(32);
  for (uint8_t& x : bytes) x = static_cast<uint8_t>(random());
  for (uint32_t& x : selectors) x = random() & 0xffffu;
  const Buffer a_buffer(bytes), b_buffer(selectors), out(32 * sizeof(uint32_t));
  Launch(kPermuteBytes, {.a = a_buffer.data(), .b = b_buffer.data(), .out = out.data()});
  const auto got = out.Read<uint8_t>();
  for (size_t i = 0; i < got.size(); ++i) {
    const uint32_t nibble = selectors[i / 4] >> (i % 4 * 4) & 15;
    const uint8_t byte = bytes[i / 4 * 8 + nibble % 8];
    const uint8_t sign = byte >= 128 ? 255 : 0;
    EXPECT_EQ(got[i], nibble < 8 ? byte : sign) << i;
  }
}

/// Element 2 (lane % 4) + half of row lane / 4 of matrix i, or of column lane / 4.
size_t ElementOf(size_t matrix, size_t lane, size_t half, bool is_transposed) {
  const size_t line = lane / 4;
  const size_t place = lane % 4 * 2 + half;
  return matrix * 64 + (is_transposed ? place * 8 + line : line * 8 + place);
}

void ExpectMoves(const char* function, size_t count, bool is_transposed, int32_t min_arch) {
  const Probe probe = Matrix(function, static_cast<int>(count), is_transposed, min_arch);
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint16_t> in(count * 64);
  for (uint16_t& x : in) x = static_cast<uint16_t>(random());
  const Buffer in_buffer(in), out(in.size() * 2);
  Launch(probe, {.a = in_buffer.data(), .out = out.data()});
  const auto got = out.Read<uint16_t>();
  const bool is_load = min_arch == 75;
  for (size_t matrix = 0; matrix < count; ++matrix) {
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t half = 0; half < 2; ++half) {
        const size_t element = ElementOf(matrix, lane, half, is_transposed);
        const size_t in_register = (matrix * 32 + lane) * 2 + half;
        EXPECT_EQ(got[is_load ? in_register : element], in[is_load ? element : in_register]);
      }
    }
  }
}

TEST(MmaTest, LoadMatrix) {
  for (const size_t count : {1, 2, 4}) ExpectMoves("LoadMatrix", count, false, 75);
}
TEST(MmaTest, LoadMatrixTransposed) {
  for (const size_t count : {1, 2, 4}) ExpectMoves("LoadMatrix", count, true, 75);
}
TEST(MmaTest, StoreMatrix) {
  for (const size_t count : {1, 2, 4}) ExpectMoves("StoreMatrix", count, false, 90);
}
TEST(MmaTest, StoreMatrixTransposed) {
  for (const size_t count : {1, 2, 4}) ExpectMoves("StoreMatrix", count, true, 90);
}

TEST(MmaTest, TransposeMatrix) {
  if (const std::string why = WhyNot(kTranspose); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint16_t> in(64);
  for (uint16_t& x : in) x = static_cast<uint16_t>(random());
  const Buffer in_buffer(in), out(in.size() * 2);
  Launch(kTranspose, {.a = in_buffer.data(), .out = out.data()});
  const auto got = out.Read<uint16_t>();
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(got[row * 8 + column], in[column * 8 + row]);
    }
  }
}

}  // namespace
}  // namespace flashinfer::probe
