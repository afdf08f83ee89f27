// SPDX-License-Identifier: Apache-2.0
// Accesses of every width, counters between blocks, and chains of dependent launches.
#include "device/probe.h"
#include "jit/store.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/memory_probe.cuh";
const Probe kSum{.function = "SumOfBlocks", .header = kHeader};
const Probe kAdd{.function = "AddOne", .header = kHeader, .num_threads = 256};

Probe Move(int bytes) { return {.function = fmt::format("Move<{}>", bytes), .header = kHeader}; }

Probe MoveWords(int bytes) {
  return {.function = fmt::format("MoveWords<{}>", bytes), .header = kHeader};
}

TEST(MemoryTest, Compiles) {
  std::vector<Probe> probes{kSum, kAdd};
  for (int bytes : {1, 2, 4, 8, 16}) {
    probes.push_back(Move(bytes));
    probes.push_back(MoveWords(bytes));
  }
  ExpectCompiles(probes);
}

TEST(MemoryTest, Moves) {
  for (const int bytes : {1, 2, 4, 8, 16}) {
    if (const std::string why = WhyNot(Move(bytes)); !why.empty()) GTEST_SKIP() << why;
    std::mt19937 random = Random();
    std::vector<uint8_t> a(static_cast<size_t>(bytes) * 32);
    for (uint8_t& x : a) x = static_cast<uint8_t>(random());
    const Buffer a_buffer(a), out(a.size() * 2);
    Launch(Move(bytes), {.a = a_buffer.data(), .out = out.data()});
    std::vector<uint8_t> twice = a;
    twice.insert(twice.end(), a.begin(), a.end());
    EXPECT_EQ(out.Read<uint8_t>(), twice) << bytes;
  }
}

TEST(MemoryTest, MovesWords) {
  if (const std::string why = WhyNot(MoveWords(16)); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint8_t> a(32 * 32);
  for (uint8_t& x : a) x = static_cast<uint8_t>(1 + random() % 255);
  const Buffer a_buffer(a);
  for (const int bytes : {1, 2, 4, 8, 16}) {
    for (const int size : {-5, 0, 1, 16, 23, 32, 40}) {
      const Buffer out(std::vector<uint8_t>(2 * a.size(), 0xaa));
      Launch(MoveWords(bytes), {.a = a_buffer.data(), .out = out.data(), .size = size});
      const auto got = out.Read<uint8_t>();
      for (size_t i = 0; i < a.size(); ++i) {
        const bool is_moved = static_cast<int>(i) % 32 / bytes * bytes < size;
        EXPECT_EQ(got[i], is_moved ? a[i] : 0) << bytes << " " << size << " " << i;
        EXPECT_EQ(got[a.size() + i], is_moved ? a[i] : 0xaa) << bytes << " " << size << " " << i;
      }
    }
  }
}

TEST(MemoryTest, CountersReset) {
  if (const std::string why = WhyNot(kSum); !why.empty()) GTEST_SKIP() << why;
  const Buffer counter(std::vector<uint32_t>{0});
  for (const uint32_t blocks : {1, 2, 500, 3000}) {
    const Buffer values(std::vector<uint32_t>(blocks, 0)), out(4);
    Launch(kSum, {.a = values.data(), .b = counter.data(), .out = out.data()}, {.grid_x = blocks});
    EXPECT_EQ(out.Read<uint32_t>()[0], blocks * (blocks + 1) / 2);
    EXPECT_EQ(counter.Read<uint32_t>()[0], 0u);
  }
}

TEST(MemoryTest, LaunchesDepend) {
  if (const std::string why = WhyNot(kAdd); !why.empty()) GTEST_SKIP() << why;
  constexpr size_t kSize = 1 << 20;
  const Buffer out(std::vector<uint32_t>(kSize, 5));
  const Device device{DeviceType::kCuda, 0};
  const cuda::Kernel& kernel = jit::Load(Render(kAdd), cuda::Properties(device));
  const ProbeParams params{.out = out.data(), .size = kSize};
  for (int i = 0; i < 50; ++i) {
    cuda::Launch(kernel, {.grid_x = kSize / 256, .overlaps_previous = true}, params, {device});
  }
  for (uint32_t x : out.Read<uint32_t>()) ASSERT_EQ(x, 55u);
}

TEST(MemoryTest, DivisorsDivide) {
  std::mt19937 random = Random();
  constexpr uint32_t kMost = 0x7fffffffu;
  for (uint32_t i = 0; i < 200000; ++i) {
    const uint32_t d = static_cast<uint32_t>(i < 1000 ? i + 1 : random() % kMost + 1);
    const kernels::Divisor divisor = kernels::MakeDivisor(d);
    for (const uint32_t n :
         {static_cast<uint32_t>(random()) & kMost, kMost, d - 1, kMost / d * d}) {
      ASSERT_EQ(divisor.Divide(n), n / d) << n << " / " << d;
    }
  }
}

}  // namespace
}  // namespace flashinfer::probe
