// SPDX-License-Identifier: Apache-2.0
// Overlaps of strided tensors, against sets of their bytes.
#include "core/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace flashinfer {
namespace {

std::set<intptr_t> BytesOf(const TensorView& t) {
  std::set<intptr_t> bytes;
  if (t.rank() == 0) {
    for (int64_t i = 0; i < SizeBytes(t.dtype()); ++i) {
      bytes.insert(reinterpret_cast<intptr_t>(t.data()) + i);
    }
    return bytes;
  }
  for (int64_t i = 0; i < t.shape(0); ++i) bytes.merge(BytesOf(t[i]));
  return bytes;
}

TensorView RandomView(std::vector<char>& memory, std::mt19937& rng) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  Dims shape, strides;
  const int64_t rank = draw(0, 3);
  for (int64_t i = 0; i < rank; ++i) {
    shape.Append(draw(0, 12) == 0 ? 0 : draw(1, 4));
    strides.Append(draw(0, 3) == 0 ? draw(1, 3) : draw(-12, 12));
  }
  static constexpr DType kDTypes[]{DType::kF32, DType::kF16, DType::kI8};
  void* data = memory.data() + memory.size() / 2 + 4 * draw(-25, 25);
  return {data, kDTypes[draw(0, 2)], shape, strides};
}

TEST(SharesMemory, IsWhatSetsOfBytesSay) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  std::vector<char> memory(2000);
  int num_shared = 0, num_between = 0;
  for (int i = 0; i < 20000; ++i) {
    const TensorView a = RandomView(memory, rng);
    const TensorView b = RandomView(memory, rng);
    const std::set<intptr_t> bytes_a = BytesOf(a), bytes_b = BytesOf(b);
    bool shares = false;
    for (const intptr_t byte : bytes_a) shares = shares || bytes_b.count(byte) != 0;
    ASSERT_EQ(SharesMemory(a, b), shares) << Text(a) << " and " << Text(b);
    num_shared += shares ? 1 : 0;
    if (shares || bytes_a.empty() || bytes_b.empty()) continue;
    num_between += *bytes_a.begin() < *bytes_b.rbegin() && *bytes_b.begin() < *bytes_a.rbegin();
  }
  EXPECT_GT(num_shared, 1000);
  EXPECT_GT(num_between, 1000);
}

/// Rows of queries, keys and values as a product writes them, of any length.
TEST(SharesMemory, PartsOfRowsAreApart) {
  std::vector<float> memory(1);
  const auto part = [&](int64_t first, int64_t heads) {
    return TensorView(memory.data() + first, DType::kF32, {200000, heads, 64}, {48 * 64, 64, 1});
  };
  EXPECT_FALSE(SharesMemory(part(0, 32), part(32 * 64, 8)));
  EXPECT_FALSE(SharesMemory(part(40 * 64, 8), part(0, 32)));
  EXPECT_TRUE(SharesMemory(part(0, 32), part(31 * 64, 8)));
  EXPECT_TRUE(SharesMemory(part(0, 32), part(48 * 64, 8)));
}

TEST(SharesMemory, OtherDevicesAreOtherMemory) {
  float x[4];
  const TensorView host(x, DType::kF32, {4});
  EXPECT_TRUE(SharesMemory(host, host));
  EXPECT_FALSE(SharesMemory(host, TensorView(x, DType::kF32, {4}, {DeviceType::kCuda, 0})));
}

TEST(IsSameView, MindsOrderAndType) {
  float x[6];
  const TensorView t(x, DType::kF32, {2, 3});
  EXPECT_TRUE(IsSameView(t, TensorView(x, DType::kF32, {2, 3}, {3, 1})));
  EXPECT_FALSE(IsSameView(t, TensorView(x, DType::kF32, {2, 3}, {1, 2})));
  EXPECT_FALSE(IsSameView(t, TensorView(x, DType::kI32, {2, 3})));
  EXPECT_FALSE(IsSameView(t, TensorView(x, DType::kF32, {3, 2})));
  EXPECT_TRUE(IsSameView(TensorView(x, DType::kF32, {1, 3}, {9, 1}),
                         TensorView(x, DType::kF32, {1, 3}, {3, 1})));
}

}  // namespace
}  // namespace flashinfer
