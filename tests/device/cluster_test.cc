// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster exchange words through each other's shared memory.
#include "device/probe.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/cluster_probe.cuh";
const Probe kBarrier{.function = "ExchangeByBarrier", .header = kHeader, .min_arch = 90};
const Probe kMbarrier{.function = "ExchangeByMbarrier", .header = kHeader, .min_arch = 90};

TEST(ClusterTest, Compiles) { ExpectCompiles({kBarrier, kMbarrier}); }

TEST(ClusterTest, ByBarrier) {
  if (const std::string why = WhyNot(kBarrier); !why.empty()) GTEST_SKIP() << why;
  for (const uint32_t count : {1, 2, 4, 8}) {
    const uint32_t blocks = 2 * count;
    const Buffer out(size_t{blocks} * 128 * 4);
    Launch(kBarrier, {.out = out.data()},
           {.grid_x = blocks, .cluster_x = static_cast<int32_t>(count)});
    const auto got = out.Read<uint32_t>();
    for (uint32_t block = 0; block < blocks; ++block) {
      const uint32_t rank = block % count;
      const uint32_t next = (rank + 1) % count;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t* at = &got[block * 128 + lane];
        EXPECT_EQ(at[0], rank * 16 + count);
        EXPECT_EQ(at[32], next * 100 + lane);
        EXPECT_EQ(at[64], next * 1000 + lane);
        EXPECT_EQ(at[96], next * 1000 + lane * 4 + 3);
      }
    }
  }
}

TEST(ClusterTest, ByMbarrier) {
  if (const std::string why = WhyNot(kMbarrier); !why.empty()) GTEST_SKIP() << why;
  for (const uint32_t count : {2, 8}) {
    const uint32_t blocks = 3 * count;
    const Buffer out(size_t{blocks} * 160 * 4);
    Launch(kMbarrier, {.out = out.data()},
           {.grid_x = blocks, .cluster_x = static_cast<int32_t>(count)});
    const auto got = out.Read<uint32_t>();
    for (uint32_t block = 0; block < blocks; ++block) {
      const uint32_t before = (block % count + count - 1) % count;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t* at = &got[block * 160 + lane];
        EXPECT_EQ(at[0], 100 * (count * (count - 1) / 2) + count * lane);
        EXPECT_EQ(at[32], before);
        EXPECT_EQ(at[64], lane);
        EXPECT_EQ(at[96], before + lane);
        EXPECT_EQ(at[128], 7u);
      }
    }
  }
}

}  // namespace
}  // namespace flashinfer::probe
