// SPDX-License-Identifier: Apache-2.0
// Copies to shared memory: every byte where its swizzle says, and nothing read behind the rows.
#include <array>
#include <set>

#include "device/probe.h"
#include "kernels/tile/swizzle.h"

namespace flashinfer::probe {
namespace {

constexpr const char* kHeader = "device/copy_probe.cuh";

Probe Rows(int rows, int row_bytes, int span) {
  return {.function = fmt::format("CopyRows<{}, {}, {}>", rows, row_bytes, span),
          .header = kHeader,
          .num_threads = 128,
          .smem_bytes = rows * row_bytes};
}

Probe Groups(int bytes) {
  return {.function = fmt::format("CopyInGroups<{}>", bytes), .header = kHeader};
}

TEST(CopyTest, Compiles) {
  ExpectCompiles(
      {Rows(64, 256, 128), Rows(16, 64, 64), Rows(16, 32, 32), Groups(4), Groups(8), Groups(16)});
}

template <int kSpan>
void ExpectSpreads() {
  // Eight neighbouring lines' pieces of one column lie in all banks, four (two) lines for narrower
  // spans, and each offset has its own place.
  constexpr kernels::tile::Swizzle<kSpan> kSwizzle;
  std::set<uint32_t> all;
  for (uint32_t line = 0; line < 16; ++line) {
    for (uint32_t byte = 0; byte < kSpan; byte += 16) {
      const uint32_t at = kSwizzle(line, byte);
      EXPECT_EQ(kSwizzle(at), line * kSpan + byte);
      all.insert(at);
    }
  }
  EXPECT_EQ(all.size(), 16 * kSpan / 16);
  for (uint32_t byte = 0; byte < kSpan; byte += 16) {
    std::set<uint32_t> banks;
    for (uint32_t line = 0; line < 8; ++line) banks.insert(kSwizzle(line, byte) % 128);
    EXPECT_EQ(banks.size(), 8) << "span " << kSpan << ", byte " << byte;
  }
}

TEST(CopyTest, SwizzlesSpreadOverBanks) {
  ExpectSpreads<128>();
  ExpectSpreads<64>();
  ExpectSpreads<32>();
}

template <int kSpan>
void ExpectRows(size_t rows, size_t row_bytes, size_t num_rows) {
  const Probe probe = Rows(static_cast<int>(rows), static_cast<int>(row_bytes), kSpan);
  if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
  std::mt19937 random = Random();
  std::vector<uint8_t> a(num_rows * row_bytes);
  for (uint8_t& x : a) x = static_cast<uint8_t>(random());
  const Buffer a_buffer(a), out(rows * row_bytes);
  Launch(probe, {.a = a_buffer.data(), .out = out.data(), .size = static_cast<int64_t>(num_rows)});
  const auto got = out.Read<uint8_t>();
  constexpr kernels::tile::Swizzle<kSpan> kSwizzle;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t byte = 0; byte < row_bytes; ++byte) {
      const size_t at = byte / kSpan * rows * kSpan +
                        kSwizzle(static_cast<uint32_t>(row), static_cast<uint32_t>(byte % kSpan));
      ASSERT_EQ(got[at], row < num_rows ? a[row * row_bytes + byte] : 0) << row << ", " << byte;
    }
  }
}

TEST(CopyTest, Rows) {
  ExpectRows<128>(64, 256, 64);
  ExpectRows<128>(64, 256, 37);
  ExpectRows<64>(16, 64, 9);
  ExpectRows<32>(16, 32, 16);
}

TEST(CopyTest, Groups) {
  for (const size_t bytes : {4, 8, 16}) {
    const Probe probe = Groups(static_cast<int>(bytes));
    if (const std::string why = WhyNot(probe); !why.empty()) GTEST_SKIP() << why;
    std::mt19937 random = Random();
    std::vector<uint8_t> a(16 * 32 * bytes);
    for (uint8_t& x : a) x = static_cast<uint8_t>(random());
    const Buffer a_buffer(a), out(a.size());
    Launch(probe, {.a = a_buffer.data(), .out = out.data()});
    EXPECT_EQ(out.Read<uint8_t>(), a) << bytes;
  }
}

}  // namespace
}  // namespace flashinfer::probe
