// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks and back: every candidate against float64 loops, layouts, odd values, and
// errors.
#include "ops/quantize_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "support/candidates.h"
#include "support/cases/quantize_blocks.h"
#include "support/compare.h"
#include "support/host_tensor.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

DType QTypeOf(BlockFormat format) {
  if (format == BlockFormat::kMxFp8E4M3) return DType::kE4M3;
  return format == BlockFormat::kMxFp8E5M2 ? DType::kE5M2 : DType::kE2M1x2;
}

DType ScaleTypeOf(BlockFormat format) {
  return format == BlockFormat::kNvFp4 ? DType::kE4M3 : DType::kE8M0;
}

/// One call's tensors, and their values one by one.
struct Tensors {
  QuantizeBlocksCase c;
  HostTensor x;
  HostTensor q;
  HostTensor scales;

  explicit Tensors(const QuantizeBlocksCase& problem)
      : c(problem),
        x(c.dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + c.row_padding, 1}),
        q(QTypeOf(c.format), {c.num_rows, RowBytes()}, {RowBytes() + c.row_padding, 1}),
        scales(ScaleTypeOf(c.format), {BlockScaleBytes(c.scale_layout, c.num_rows, NumBlocks())}) {}

  int64_t RowBytes() const { return c.padded_size / ElementsPerByte(c.format); }
  int64_t BlockSize() const { return ElementsPerBlock(c.format); }
  int64_t NumBlocks() const { return c.padded_size / BlockSize(); }

  double QAt(int64_t row, int64_t i) const {
    const int64_t per_byte = ElementsPerByte(c.format);
    const uint8_t byte = q.view().data_as<const uint8_t>()[row * q.view().stride(0) + i / per_byte];
    if (per_byte == 1) return NarrowValue(QTypeOf(c.format), byte);
    return NarrowValue(DType::kE2M1x2, static_cast<uint8_t>(byte >> (i % 2 * 4) & 15));
  }

  /// As the header's formulas say.
  int64_t OffsetOf(int64_t m, int64_t k) const {
    const int64_t tiles = (NumBlocks() + 3) / 4;
    if (c.scale_layout == ScaleLayout::kLinear) return m * NumBlocks() + k;
    if (c.scale_layout == ScaleLayout::k8x4) {
      return (m / 8 * tiles + k / 4) * 32 + m % 8 * 4 + k % 4;
    }
    return (m / 128 * tiles + k / 4) * 512 + m % 32 * 16 + m % 128 / 32 * 4 + k % 4;
  }
  double ScaleAt(int64_t row, int64_t block) const { return scales.At({OffsetOf(row, block)}); }

  double Amax(int64_t row, int64_t block) const {
    double amax = 0;
    for (int64_t i = block * BlockSize(); i < (block + 1) * BlockSize() && i < c.hidden_size; ++i) {
      const double size = std::abs(x.At({row, i}));
      if (std::isfinite(size)) amax = std::max(amax, size);
    }
    return amax;
  }
};

void ExpectScaleIsRight(const Tensors& t, int64_t row, int64_t block, double global_scale) {
  const double amax = t.Amax(row, block);
  const double scale = t.ScaleAt(row, block);
  if (t.c.format == BlockFormat::kNvFp4) {
    EXPECT_TRUE(NarrowValues(DType::kE4M3).IsNearest(scale, global_scale * amax / 6));
    return;
  }
  // The smallest power of two that saturates nothing.
  const double largest = NarrowValues(QTypeOf(t.c.format)).largest();
  EXPECT_LE(amax, scale * largest);
  EXPECT_TRUE(scale == 0x1p-127 || amax > scale / 2 * largest) << amax << " by " << scale;
}

void ExpectCodesAreNearest(const Tensors& t, double global_scale) {
  const NarrowValues values(QTypeOf(t.c.format));
  for (int64_t row = 0; row < t.c.num_rows; ++row) {
    for (int64_t block = 0; block < t.NumBlocks(); ++block) {
      ExpectScaleIsRight(t, row, block, global_scale);
      const double scale = t.ScaleAt(row, block) / global_scale;
      for (int64_t i = block * t.BlockSize(); i < (block + 1) * t.BlockSize(); ++i) {
        const double value = i < t.c.hidden_size ? t.x.At({row, i}) : 0;
        ASSERT_TRUE(values.IsNearest(t.QAt(row, i), scale == 0 ? 0 : value / scale))
            << "row " << row << " element " << i << ": " << t.QAt(row, i) << " for " << value
            << " / " << scale;
      }
    }
  }
}

void ExpectPaddingIsZero(const Tensors& t) {
  std::set<int64_t> used;
  for (int64_t row = 0; row < t.c.num_rows; ++row) {
    for (int64_t block = 0; block < t.NumBlocks(); ++block) used.insert(t.OffsetOf(row, block));
  }
  EXPECT_EQ(static_cast<int64_t>(used.size()), t.c.num_rows * t.NumBlocks());
  const auto* bytes = t.scales.view().data_as<const uint8_t>();
  for (int64_t i = 0; i < t.scales.view().shape(0); ++i) {
    ASSERT_TRUE(used.contains(i) || bytes[i] == 0) << i;
  }
  EXPECT_TRUE(PaddingIsUntouched(t.q));
  EXPECT_TRUE(PaddingIsUntouched(t.scales));
}

class QuantizeBlocksCaseTest : public ::testing::TestWithParam<QuantizeBlocksCase> {};

TEST_P(QuantizeBlocksCaseTest, EveryCandidateMatchesTheOracleAndComesBack) {
  const QuantizeBlocksCase& c = GetParam();
  std::mt19937_64 rng(23);
  constexpr double kGlobalScale = 384;
  HostTensor global_scale(DType::kF32, {1});
  global_scale.Fill(kGlobalScale);
  const double global = c.format == BlockFormat::kNvFp4 ? kGlobalScale : 1;
  bool scale_from_tensor = false;
  for (const std::string& candidate : AcceptingCandidates<QuantizeBlocksOp>(ProblemOf(c))) {
    SCOPED_TRACE(FieldsText(candidate, c));
    Tensors t(c);
    t.x.FillNormal(rng, 2.0);
    QuantizeBlocksOptions options{.scale_layout = c.scale_layout,
                                  .global_scale = static_cast<float>(kGlobalScale),
                                  .backend = Backend(candidate)};
    if (scale_from_tensor) {
      options.global_scale = 7;  // not to be read
      options.global_scale_tensor = global_scale;
    }
    scale_from_tensor = !scale_from_tensor;
    QuantizeBlocks(t.x, t.q, t.scales, options);
    ExpectCodesAreNearest(t, global);
    ExpectPaddingIsZero(t);

    HostTensor back(c.dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + 1, 1});
    DequantizeBlocks(t.q, t.scales, back, options);
    std::vector<double> expected;
    for (int64_t row = 0; row < c.num_rows; ++row) {
      for (int64_t i = 0; i < c.hidden_size; ++i) {
        expected.push_back(t.QAt(row, i) * t.ScaleAt(row, i / t.BlockSize()) / global);
      }
    }
    EXPECT_TRUE(AllNear(back, expected, ToleranceOf(c.dtype)));
  }
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
    for (const std::string& candidate : AcceptingCandidates<QuantizeBlocksOp>(ProblemOf(c))) {
      SCOPED_TRACE(candidate);
      Tensors t(c);
      t.x.Fill(1);
      fill(t.x);
      const QuantizeBlocksOptions options{.scale_layout = c.scale_layout,
                                          .backend = Backend(candidate)};
      QuantizeBlocks(t.x, t.q, t.scales, options);
      HostTensor back(DType::kF32, {num_rows, 32});
      DequantizeBlocks(t.q, t.scales, back, options);
      body(t, back);
    }
  }
};

TEST_P(EveryFormatTest, ZeroBlocksHaveTheSmallestScale) {
  ForEachCandidate(
      2, [](HostTensor& x) { x.Fill(0); },
      [](const Tensors& t, const HostTensor& back) {
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
      [](const Tensors& t, const HostTensor& back) {
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
      [](const Tensors& t, const HostTensor& back) {
        EXPECT_TRUE(std::isnan(back.At({0, 3})));
        const bool is_fp8 = ElementsPerByte(t.c.format) == 1;
        EXPECT_EQ(std::isnan(back.At({0, 0})), !is_fp8);
        EXPECT_EQ(std::isnan(back.At({0, 31})), t.c.format == BlockFormat::kMxFp4);
        EXPECT_FALSE(std::isnan(back.At({1, 3})));
      });
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
        [&](const Tensors& t, const HostTensor&) {
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
