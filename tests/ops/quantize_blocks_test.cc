// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks and back: every candidate against float64 loops, layouts, odd values, and
// errors.
#include "ops/quantize_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/cases/quantize_blocks.h"
#include "support/checks/quantize_blocks.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class QuantizeBlocksCaseTest : public ::testing::TestWithParam<QuantizeBlocksCase> {};

TEST_P(QuantizeBlocksCaseTest, EveryCandidateMatchesTheOracleAndComesBack) {
  ExpectCaseHolds(CheckQuantizeBlocks, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, QuantizeBlocksCaseTest,
                         ::testing::ValuesIn(QuantizeBlocksCases()));

class EveryFormatTest : public ::testing::TestWithParam<BlockFormat> {
 public:
  /// Quantises rows of 32 with each candidate.
  template <class Fill, class Body>
  void ForEachCandidate(int64_t num_rows, const Fill& fill, const Body& body) {
    const QuantizeBlocksCase c{.format = GetParam(),
                               .dtype = DType::kF32,
                               .scale_layout = ScaleLayout::kLinear,
                               .num_rows = num_rows,
                               .hidden_size = 32,
                               .padded_size = 32};
    for (const auto& [candidate, device] : CandidatesOnDevices<QuantizeBlocksOp>(ProblemOf(c))) {
      SCOPED_TRACE(candidate);
      DeviceCopies on(device);
      BlockTensors t(c);
      t.x.Fill(1);
      fill(t.x);
      const QuantizeBlocksOptions options{.scale_layout = c.scale_layout,
                                          .backend = Backend(candidate)};
      HostTensor back(DType::kF32, {num_rows, 32});
      QuantizeBlocks(on(t.x), on(t.q), on(t.scales), options);
      DequantizeBlocks(on(t.q), on(t.scales), on(back), options);
      on.Fetch();
      body(t, back);
    }
  }
};

TEST_P(EveryFormatTest, ZeroBlocksHaveTheSmallestScale) {
  ForEachCandidate(
      2, [](HostTensor& x) { x.Fill(0); },
      [](const BlockTensors& t, const HostTensor& back) {
        for (uint8_t byte : std::vector<uint8_t>(
                 t.scales.view().data_as<const uint8_t>(),
                 t.scales.view().data_as<const uint8_t>() + t.scales.view().shape(0))) {
          EXPECT_EQ(byte, 0);
        }
        for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(back.At({1, i}), 0);
      });
}

TEST_P(EveryFormatTest, InfinitiesSaturateAndSpoilNoNeighbour) {
  ForEachCandidate(
      1,
      [](HostTensor& x) {
        x.Set({0, 3}, kInfinity);
        x.Set({0, 4}, -kInfinity);
      },
      [](const BlockTensors& t, const HostTensor& back) {
        const double largest = NarrowValues(QTypeOf(t.c.format)).largest();
        EXPECT_EQ(t.QAt(0, 3), largest);
        EXPECT_EQ(t.QAt(0, 4), -largest);
        EXPECT_NEAR(back.At({0, 0}), 1, 0.07);  // e4m3(1 / 6) is 0.1719
      });
}

TEST_P(EveryFormatTest, NanStaysNanAndInItsBlock) {
  ForEachCandidate(
      2,
      [](HostTensor& x) {
        x.Set({0, 3}, kNan);
      },
      [](const BlockTensors& t, const HostTensor& back) {
        EXPECT_TRUE(std::isnan(back.At({0, 3})));
        const bool is_fp8 = ElementsPerByte(t.c.format) == 1;
        EXPECT_EQ(std::isnan(back.At({0, 0})), !is_fp8);
        EXPECT_EQ(std::isnan(back.At({0, 31})), t.c.format == BlockFormat::kMxFp4);
        EXPECT_FALSE(std::isnan(back.At({1, 3})));
      });
}

/// Products and quotients are rounded once, to float32, by every candidate: codes do not depend on
/// who made them.
TEST_P(EveryFormatTest, EveryCandidateGivesTheSameBits) {
  std::mt19937_64 rng(41);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const QuantizeBlocksCase c{.format = GetParam(),
                               .dtype = dtype,
                               .num_rows = 65,
                               .hidden_size = 1001,
                               .padded_size = 1024};
    HostTensor x(dtype, {c.num_rows, c.hidden_size});
    x.FillNormal(rng, 1.0);
    for (int64_t row = 0; row < c.num_rows; ++row) {  // of every size, ties among them
      for (int64_t i = 0; i < c.hidden_size; ++i) {
        const double scaled = std::ldexp(x.At({row, i}), static_cast<int>(row) - 32);
        x.Set({row, i},
              i % 3 == 0 ? std::ldexp(static_cast<double>(i % 29) / 8, static_cast<int>(row) - 32)
                         : scaled);
      }
      x.Set({row, row}, -0.0);
      x.Set({row, row + 100}, kInfinity);
    }
    for (float global_scale : {384.7f, 1e-20f, 1e20f}) {
      const auto candidates = CandidatesOnDevices<QuantizeBlocksOp>(ProblemOf(c));
      std::vector<BlockTensors> results;
      results.reserve(candidates.size());
      for (const auto& [candidate, device] : candidates) {
        SCOPED_TRACE(candidate);
        DeviceCopies on(device);
        const BlockTensors& t = results.emplace_back(c);
        QuantizeBlocks(on(x), on(t.q), on(t.scales),
                       {.global_scale = global_scale, .backend = Backend(candidate)});
        on.Fetch();
        EXPECT_EQ(t.q.bytes(), results[0].q.bytes());
        EXPECT_EQ(t.scales.bytes(), results[0].scales.bytes());
      }
    }
  }
}

class MxFormatTest : public EveryFormatTest {};

TEST_P(MxFormatTest, ScalesTurnJustAboveALargestValue) {
  const double largest = NarrowValues(QTypeOf(GetParam())).largest();
  for (double size : {0x1p-140, 0x1p-126, 1.0, 0x1p100}) {
    ForEachCandidate(
        3,
        [&](HostTensor& x) {
          x.Fill(0);
          const auto exact = static_cast<float>(largest * size);
          x.Set({0, 7}, static_cast<double>(exact));
          x.Set({1, 7}, static_cast<double>(std::nextafter(exact, 0.0f)));
          x.Set({2, 7}, static_cast<double>(std::nextafter(exact, 1e38f)));
        },
        [&](const BlockTensors& t, const HostTensor&) {
          const double smallest = 0x1p-127;
          EXPECT_EQ(t.ScaleAt(0, 0), std::max(size, smallest));
          EXPECT_EQ(t.ScaleAt(1, 0), std::max(size, smallest));
          EXPECT_EQ(t.ScaleAt(2, 0), std::max(2 * size, smallest));
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MxFormatTest,
                         ::testing::Values(BlockFormat::kMxFp8E4M3, BlockFormat::kMxFp8E5M2,
                                           BlockFormat::kMxFp4));
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormatTest,
                         ::testing::Values(BlockFormat::kMxFp8E4M3, BlockFormat::kMxFp8E5M2,
                                           BlockFormat::kMxFp4, BlockFormat::kNvFp4));

TEST(BlockScaleBytes, PadsToTiles) {
  EXPECT_EQ(BlockScaleBytes(ScaleLayout::kLinear, 3, 5), 15);
  EXPECT_EQ(BlockScaleBytes(ScaleLayout::k128x4, 3, 5), 128 * 8);
  EXPECT_EQ(BlockScaleBytes(ScaleLayout::k128x4, 129, 4), 256 * 4);
  EXPECT_EQ(BlockScaleBytes(ScaleLayout::k8x4, 9, 5), 16 * 8);
}

TEST(QuantizeBlocks, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kBF16, {2, 64});
  HostTensor q(DType::kE4M3, {2, 64});
  HostTensor nibbles(DType::kE2M1x2, {2, 32});
  HostTensor narrow(DType::kE2M1x2, {2, 24});
  HostTensor e8m0(DType::kE8M0, {4});
  HostTensor e4m3(DType::kE4M3, {8});
  const QuantizeBlocksOptions linear{.scale_layout = ScaleLayout::kLinear};
  EXPECT_THAT([&] { QuantizeBlocks(x, x, e8m0, linear); },
              ThrowsMessage<Error>("q: dtype is bf16, accepted: e4m3, e5m2, e2m1x2"));
  EXPECT_THAT([&] { QuantizeBlocks(x, q, e4m3, linear); },
              ThrowsMessage<Error>("block_scales: dtype is e4m3, accepted: e8m0"));
  EXPECT_THAT([&] { QuantizeBlocks(x, nibbles, e8m0); },
              ThrowsMessage<Error>("block_scales: shape is [4], expected [512]"));
  EXPECT_THAT([&] { QuantizeBlocks(x, narrow, e4m3, linear); },
              ThrowsMessage<Error>(
                  "q: holds 48 elements a row, expected a multiple of 16, at least x's 64"));
  EXPECT_THAT(
      [&] {
        QuantizeBlocks(x, nibbles, e4m3,
                       {.scale_layout = ScaleLayout::kLinear, .global_scale = 0.0f});
      },
      ThrowsMessage<Error>("global_scale: is 0, expected more than 0"));
}

}  // namespace
}  // namespace flashinfer::test
