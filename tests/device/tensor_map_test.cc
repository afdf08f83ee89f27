// SPDX-License-Identifier: Apache-2.0
// The copy engine against loops: bulk copies, boxes of tensors of every rank with every swizzle,
// borders included, and a ring of stages between warps.
#include "cuda/tensor_map.h"

#include <gmock/gmock.h>

#include <array>
#include <numeric>

#include "device/probe.h"
#include "flashinfer/error.h"
#include "kernels/tile/swizzle.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/tensor_map_probe.cuh";
const Probe kBulk{.function = "CopyBulk", .header = kHeader, .min_arch = 90, .smem_bytes = 65536};
const Probe kArrive{
    .function = "ArriveByCopy", .header = kHeader, .min_arch = 90, .num_threads = 64};

Probe Box(size_t rank, bool stores) {
  return {.function = fmt::format("CopyBox<{}, {}>", rank, stores),
          .header = kHeader,
          .min_arch = 90,
          .smem_bytes = 32768};
}

Probe Ring(int stages) {
  return {.function = fmt::format("ReadRing<{}>", stages),
          .header = kHeader,
          .min_arch = 90,
          .num_threads = 128};
}

TEST(TensorMapTest, Compiles) {
  std::vector<Probe> probes{kBulk, kArrive, Ring(1), Ring(3)};
  for (size_t rank = 1; rank <= 5; ++rank) probes.push_back(Box(rank, true));
  ExpectCompiles(probes);
}

std::vector<uint8_t> RandomBytes(size_t count) {
  std::mt19937 random = Random();
  std::vector<uint8_t> bytes(count);
  for (uint8_t& x : bytes) x = static_cast<uint8_t>(random());
  return bytes;
}

TEST(TensorMapTest, Bulk) {
  if (const std::string why = WhyNot(kBulk); !why.empty()) GTEST_SKIP() << why;
  for (const size_t bytes : {16, 4096, 65536}) {
    const std::vector<uint8_t> a = RandomBytes(bytes);
    const Buffer a_buffer(a), out(bytes);
    Launch(kBulk, {.a = a_buffer.data(), .out = out.data(), .size = static_cast<int64_t>(bytes)});
    EXPECT_EQ(out.Read<uint8_t>(), a);
  }
}

TEST(TensorMapTest, CopiesArrive) {
  if (const std::string why = WhyNot(kArrive); !why.empty()) GTEST_SKIP() << why;
  const std::vector<uint8_t> a = RandomBytes(1024);
  const Buffer a_buffer(a), out(1024);
  Launch(kArrive, {.a = a_buffer.data(), .out = out.data()});
  EXPECT_EQ(out.Read<uint8_t>(), a);
}

/// A tensor of 16-bit elements, dense but for its innermost dimension, which is padded to 8.
struct Tensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< of all dimensions
  int64_t num_elements;
};

Tensor MakeTensor(const std::vector<int64_t>& sizes) {
  Tensor t{sizes, {1}, 0};
  int64_t stride = (sizes[0] + 7) / 8 * 8;
  for (size_t i = 1; i < sizes.size(); ++i) {
    t.strides.push_back(stride);
    stride *= sizes[i];
  }
  t.num_elements = stride;
  return t;
}

uint32_t Swizzled(cuda::TensorMapSwizzle swizzle, uint32_t offset) {
  switch (swizzle) {
    case cuda::TensorMapSwizzle::k128B:
      return kernels::tile::Swizzle<128>()(offset);
    case cuda::TensorMapSwizzle::k64B:
      return kernels::tile::Swizzle<64>()(offset);
    case cuda::TensorMapSwizzle::k32B:
      return kernels::tile::Swizzle<32>()(offset);
    default:
      return offset;
  }
}

/// Calls visit(place in the box, offset in the tensor, or -1 outside of it).
template <class Visit>
void ForEachInBox(const Tensor& t, const std::vector<int32_t>& box, const std::vector<int32_t>& at,
                  Visit&& visit) {
  const int total = std::accumulate(box.begin(), box.end(), 1, std::multiplies<>());
  for (int place = 0; place < total; ++place) {
    int rest = place;
    int64_t offset = 0;
    bool is_inside = true;
    for (size_t i = 0; i < box.size(); ++i) {
      const int64_t c = at[i] + rest % box[i];
      rest /= box[i];
      is_inside = is_inside && c >= 0 && c < t.sizes[i];
      offset += c * t.strides[i];
    }
    visit(static_cast<size_t>(place), is_inside ? offset : -1);
  }
}

enum class Stores : bool { kNo, kYes };

void ExpectBox(const std::vector<int64_t>& sizes, const std::vector<int32_t>& box,
               const std::vector<int32_t>& at, Stores stores,
               cuda::TensorMapSwizzle swizzle = cuda::TensorMapSwizzle::kNone) {
  const Probe probe = Box(sizes.size(), stores == Stores::kYes);
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  SCOPED_TRACE(
      fmt::format("{} dimensions, {} elements, begin {}, ...", sizes.size(), sizes[0], at[0]));
  const Tensor t = MakeTensor(sizes);
  std::vector<uint16_t> a(static_cast<size_t>(t.num_elements));
  std::mt19937 random = Random();
  for (uint16_t& x : a) x = static_cast<uint16_t>(random());
  const size_t box_elements =
      static_cast<size_t>(std::accumulate(box.begin(), box.end(), 1, std::multiplies<>()));
  const Buffer a_buffer(a), c_buffer(at), out(box_elements * 2), stored(a.size() * 2);
  cuda::TensorMapShape shape{.device = {DeviceType::kCuda, 0},
                             .dtype = DType::kF16,
                             .data = a_buffer.data(),
                             .sizes = t.sizes,
                             .strides = std::span(t.strides).subspan(1),
                             .box = box,
                             .swizzle = swizzle};
  ProbeParams params{.map = cuda::EncodeTensorMap(shape),
                     .b = c_buffer.data(),
                     .out = out.data(),
                     .size = static_cast<int64_t>(box_elements * 2)};
  shape.data = stored.data();
  params.map_out = cuda::EncodeTensorMap(shape);
  Launch(probe, params);

  const auto got = out.Read<uint16_t>();
  std::vector<uint16_t> expected_stored(a.size(), 0xffff);
  ForEachInBox(t, box, at, [&](size_t place, int64_t offset) {
    const size_t in_shared = Swizzled(swizzle, static_cast<uint32_t>(place * 2)) / 2;
    const uint16_t expected = offset < 0 ? uint16_t{0} : a[static_cast<size_t>(offset)];
    ASSERT_EQ(got[in_shared], expected) << "place " << place;
    if (offset >= 0 && stores == Stores::kYes) {
      expected_stored[static_cast<size_t>(offset)] = expected;
    }
  });
  const auto got_stored = stored.Read<uint16_t>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(got_stored[i], expected_stored[i]) << i;
}

TEST(TensorMapTest, BoxesInside) {
  ExpectBox({1000}, {64}, {40}, Stores::kYes);
  ExpectBox({100, 50}, {64, 16}, {8, 3}, Stores::kYes);
  ExpectBox({40, 9, 7}, {16, 8, 4}, {24, 1, 2}, Stores::kYes);
  ExpectBox({40, 9, 7, 3}, {16, 8, 2, 2}, {0, 1, 1, 1}, Stores::kYes);
  ExpectBox({40, 9, 7, 3, 2}, {16, 8, 2, 1, 2}, {24, 1, 1, 2, 0}, Stores::kYes);
}

TEST(TensorMapTest, LoadsOverTheBordersGiveZeros) {
  ExpectBox({1000}, {64}, {968}, Stores::kNo);
  ExpectBox({100, 50}, {64, 16}, {64, 40}, Stores::kNo);
  ExpectBox({40, 9, 7}, {16, 8, 4}, {32, -3, 5}, Stores::kNo);
  ExpectBox({40, 9, 7, 3}, {16, 8, 2, 2}, {-8, 4, 1, 2}, Stores::kNo);
  ExpectBox({40, 9, 7, 3, 2}, {16, 8, 2, 1, 2}, {24, 4, 1, 2, 1}, Stores::kNo);
}

TEST(TensorMapTest, StoresOverTheEndAreLeftOut) {
  ExpectBox({1000}, {64}, {968}, Stores::kYes);
  ExpectBox({104, 50}, {64, 16}, {0, 40}, Stores::kYes);
  ExpectBox({104, 50}, {64, 16}, {64, 0}, Stores::kYes);
}

TEST(TensorMapTest, Swizzles) {
  using cuda::TensorMapSwizzle;
  ExpectBox({128, 100}, {64, 64}, {64, 20}, Stores::kYes, TensorMapSwizzle::k128B);
  ExpectBox({128, 100}, {32, 64}, {96, 30}, Stores::kYes, TensorMapSwizzle::k64B);
  ExpectBox({128, 100}, {16, 64}, {16, 0}, Stores::kYes, TensorMapSwizzle::k32B);
  // A page of 16 tokens, one head of 128 columns in two panels.
  ExpectBox({64, 16, 2, 5}, {64, 16, 2, 1}, {0, 0, 0, 3}, Stores::kYes, TensorMapSwizzle::k128B);
}

TEST(TensorMapTest, RingBetweenWarps) {
  for (const int stages : {1, 3}) {
    if (const std::string why = WhyNot(Ring(stages)); !why.empty()) GTEST_SKIP() << why;
    for (const size_t blocks : {0, 1, 2, 3, 4, 7, 100}) {
      const std::vector<uint8_t> a = RandomBytes(blocks * 1024);
      std::vector<uint32_t> words(a.size() / 4);
      std::copy(a.begin(), a.end(), reinterpret_cast<uint8_t*>(words.data()));
      const Buffer a_buffer(a), out(blocks * 3 * 32 * 4);
      Launch(Ring(stages),
             {.a = a_buffer.data(), .out = out.data(), .size = static_cast<int64_t>(blocks)});
      const auto got = out.Read<uint32_t>();
      for (size_t i = 0; i < got.size(); ++i) {
        const auto begin = words.begin() + static_cast<int64_t>((i / 96 * 32 + i % 32) * 8);
        ASSERT_EQ(got[i], std::accumulate(begin, begin + 8, 0u)) << blocks << ", " << i;
      }
    }
  }
}

TEST(TensorMapTest, RefusalsSayWhy) {
  const std::array<int64_t, 2> sizes{64, 8};
  const std::array<int64_t, 1> strides{60};
  const std::array<int32_t, 2> box{64, 8};
  const cuda::TensorMapShape shape{.device = {DeviceType::kCuda, 0},
                                   .dtype = DType::kBF16,
                                   .data = nullptr,
                                   .sizes = sizes,
                                   .strides = strides,
                                   .box = box,
                                   .swizzle = cuda::TensorMapSwizzle::k64B};
  const auto expect = [](const cuda::TensorMapShape& s, const char* words) {
    EXPECT_THAT([&] { cuda::EncodeTensorMap(s); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
  };
  expect(shape, "stride 1 is 120 bytes, accepted: multiples of 16 below 2^40");
  cuda::TensorMapShape wide = shape;
  const std::array<int64_t, 1> dense{64};
  wide.strides = dense;
  expect(wide, "lines of the box are 128 bytes, accepted: multiples of 16 up to 64");
  wide.dtype = DType::kE2M1x2;
  expect(wide, "does not know e2m1x2");
}

}  // namespace
}  // namespace flashinfer::probe
