// SPDX-License-Identifier: Apache-2.0
// Sums over lanes and warps, exact on integers, and the online softmax with rows that see nothing.
#include <bit>
#include <cmath>

#include "device/probe.h"

namespace flashinfer::probe {
namespace {

Probe Of(const std::string& function, int32_t num_threads = 32) {
  return {.function = function, .header = "device/reduce_probe.cuh", .num_threads = num_threads};
}
Probe Warp(size_t lanes) { return Of(fmt::format("ReduceWarp<{}>", lanes)); }
Probe Scatter(size_t count, size_t lanes) {
  return Of(fmt::format("Scatter<{}, {}>", count, lanes));
}
Probe Block(size_t threads) {
  return Of(fmt::format("ReduceBlock<{}>", threads), static_cast<int32_t>(threads));
}
const Probe kSoftmax = Of("Softmax");

const std::vector<std::pair<size_t, size_t>> kScatters{{32, 32}, {8, 8},  {32, 16}, {16, 32},
                                                       {1, 8},   {4, 16}, {2, 2}};

TEST(ReduceTest, Compiles) {
  std::vector<Probe> probes{Warp(32), Warp(4), Block(32), Block(128), Block(1024), kSoftmax};
  for (const auto& [count, lanes] : kScatters) probes.push_back(Scatter(count, lanes));
  ExpectCompiles(probes);
}

std::vector<float> RandomIntegers(size_t count) {
  std::mt19937 random = Random();
  std::uniform_int_distribution<int> values(-1000, 1000);
  std::vector<float> x(count);
  for (float& value : x) value = static_cast<float>(values(random));
  return x;
}

TEST(ReduceTest, Warp) {
  for (const size_t lanes : {4, 32}) {
    if (const std::string why = WhyNot(Warp(lanes)); !why.empty()) GTEST_SKIP() << why;
    const std::vector<float> a = RandomIntegers(32);
    const Buffer a_buffer(a), out(64 * 4);
    Launch(Warp(lanes), {.a = a_buffer.data(), .out = out.data()});
    const auto got = out.Read<float>();
    for (size_t lane = 0; lane < 32; ++lane) {
      float sum = 0;
      float max = -INFINITY;
      for (size_t i = lane / lanes * lanes; i < (lane / lanes + 1) * lanes; ++i) {
        sum += a[i];
        max = std::max(max, a[i]);
      }
      EXPECT_EQ(got[lane], sum);
      EXPECT_EQ(got[32 + lane], max);
    }
  }
}

/// The value that a lane keeps first: the lane's lowest bit is the index's highest, and so on.
size_t FirstKept(size_t lane, size_t count, size_t lanes) {
  size_t index = 0;
  for (size_t mask = 1; mask < lanes && count > 1; mask *= 2) {
    count /= 2;
    if ((lane & mask) != 0) index += count;
  }
  return index;
}

TEST(ReduceTest, Scattered) {
  for (const auto& [count, lanes] : kScatters) {
    const Probe probe = Scatter(count, lanes);
    if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
    const std::vector<float> a = RandomIntegers(count * 32);
    const size_t kept = count > lanes ? count / lanes : 1;
    const Buffer a_buffer(a), out(kept * 32 * 4);
    Launch(probe, {.a = a_buffer.data(), .out = out.data()});
    const auto got = out.Read<float>();
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < kept; ++i) {
        const size_t index = FirstKept(lane, count, lanes) + i;
        float sum = 0;
        for (size_t j = lane / lanes * lanes; j < (lane / lanes + 1) * lanes; ++j) {
          sum += a[index * 32 + j];
        }
        EXPECT_EQ(got[i * 32 + lane], sum) << probe.function << ", lane " << lane;
      }
    }
  }
}

TEST(ReduceTest, Block) {
  for (const size_t threads : {32, 128, 1024}) {
    if (const std::string why = WhyNot(Block(threads)); !why.empty()) GTEST_SKIP() << why;
    const std::vector<float> a = RandomIntegers(threads);
    const Buffer a_buffer(a), out(threads * 4);
    Launch(Block(threads), {.a = a_buffer.data(), .out = out.data()});
    float sum = 0;
    for (float x : a) sum += x;
    for (float x : out.Read<float>()) EXPECT_EQ(x, sum);
  }
}

TEST(ReduceTest, Softmax) {
  if (const std::string why = WhyNot(kSoftmax); !why.empty()) GTEST_SKIP() << why;
  constexpr size_t kSize = 500;
  std::mt19937 random = Random();
  std::normal_distribution<float> normal(0, 20);
  std::vector<float> a(kSize * 32);
  for (float& x : a) x = normal(random);
  for (size_t i = 0; i < kSize; ++i) {
    a[i * 32] = -INFINITY;                            // lane 0 sees nothing,
    if (i < 100) a[i * 32 + 1] = -INFINITY;           // lane 1 nothing at first,
    if (i >= 1) a[i * 32 + 2] = -INFINITY;            // lane 2 one key,
    a[i * 32 + 3] = i % 2 == 0 ? -3e38f : -INFINITY;  // lane 3 keys far below all others.
  }
  const Buffer a_buffer(a), out(3 * 32 * 4);
  Launch(kSoftmax, {.a = a_buffer.data(), .out = out.data(), .size = kSize});
  const auto got = out.Read<float>();
  for (size_t lane = 0; lane < 32; ++lane) {
    double max = -INFINITY;
    for (size_t i = 0; i < kSize; ++i) max = std::max<double>(max, a[i * 32 + lane]);
    double sum = 0;
    for (size_t i = 0; i < kSize; ++i) {
      if (!std::isinf(a[i * 32 + lane])) sum += std::exp2(a[i * 32 + lane] - max);
    }
    EXPECT_EQ(got[lane], static_cast<float>(max));
    EXPECT_NEAR(got[32 + lane], sum, 1e-5 * sum);
    if (lane == 0) {
      EXPECT_EQ(got[64], -INFINITY);
    } else {
      EXPECT_NEAR(got[64 + lane], max + std::log2(sum), 1e-5 * (1 + std::abs(max)));
    }
  }
}

}  // namespace
}  // namespace flashinfer::probe
