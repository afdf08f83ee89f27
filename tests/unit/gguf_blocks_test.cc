// SPDX-License-Identifier: Apache-2.0
// The oracle of GGUF blocks, against values from the format's own Python package (gguf 0.19).
#include "support/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/convert.h"

namespace flashinfer::test {
namespace {

/// One block whose byte i is 37 i + 11, but for its f16 scales, which are 0.375 and -0.1015625.
struct KnownBlock {
  WeightFormat format;
  std::vector<size_t> scale_bytes;
  std::vector<std::pair<size_t, double>> values;
  double weighted_sum;  ///< of (i + 1) · value i
};

const KnownBlock kKnownBlocks[] = {
    {WeightFormat::kQ4_0, {0}, {{0, -1.125}, {1, 0.75}, {15, -3}, {16, -1.125}, {31, 0}}, -194.25},
    {WeightFormat::kQ4_1,
     {0, 2},
     {{0, 5.5234375}, {1, 1.3984375}, {15, 3.6484375}, {16, 3.2734375}, {31, 4.3984375}},
     1440},
    {WeightFormat::kQ8_0,
     {0},
     {{0, 31.875}, {1, 45.75}, {15, -48}, {16, -34.125}, {31, -18}},
     -3030},
    {WeightFormat::kQ4_K,
     {0, 2},
     {{0, 133.0546875},
      {15, 74.9296875},
      {32, 9.9375},
      {63, 21.9375},
      {64, 175.3203125},
      {100, 45.453125},
      {128, 162.09375},
      {200, 56.8515625},
      {255, 28.3046875}},
     3114836},
    {WeightFormat::kQ6_K,
     {208},
     {{0, -536.625},
      {15, -119.25},
      {16, -162},
      {32, 86.625},
      {63, -217.5},
      {64, -1140},
      {100, 946.125},
      {128, -131.625},
      {200, 408.375},
      {255, -22.5}},
     294157.5},
};

TEST(GgufBlocks, KnownBlocksHaveTheirValues) {
  for (const KnownBlock& known : kKnownBlocks) {
    SCOPED_TRACE(static_cast<int>(known.format));
    const BlockShape shape = ShapeOf(known.format);
    std::vector<uint8_t> block(static_cast<size_t>(shape.num_bytes));
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<uint8_t>(37 * i + 11);
    float scale = 0.375f;
    for (const size_t place : known.scale_bytes) {
      const uint16_t bits = FromFloat<F16>(scale).bits;
      std::memcpy(&block[place], &bits, sizeof(bits));
      scale = -0.1015625f;
    }
    const std::vector<double> values =
        Dequantize({block.data(), known.format, 1, shape.num_values});
    for (const auto& [index, value] : known.values) EXPECT_EQ(values[index], value) << index;
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(i + 1) * values[i];
    EXPECT_EQ(sum, known.weighted_sum);
  }
}

TEST(GgufBlocks, ShapesAreThoseOfTheLibrary) {
  for (const WeightFormat format : kWeightFormats) {
    EXPECT_EQ(ShapeOf(format).num_values, BlockSize(format)) << Name(format);
    EXPECT_EQ(ShapeOf(format).num_bytes, BlockBytes(format)) << Name(format);
  }
}

/// Encoding and decoding is near the input: a step of the coarsest grid that the values allow.
TEST(GgufBlocks, QuantizingStaysWithinAStep) {
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(4096);
  for (float& value : values) value = uniform(rng);
  std::fill_n(values.begin() + 256, 256, 0.0f);   // a block of zeros
  std::fill_n(values.begin() + 512, 256, -0.5f);  // a block of one value
  const std::pair<WeightFormat, double> steps[] = {
      {WeightFormat::kF32, 0},          {WeightFormat::kF16, 1.0 / 2048},
      {WeightFormat::kBF16, 1.0 / 256}, {WeightFormat::kQ4_0, 1.0 / 8},
      {WeightFormat::kQ4_1, 2.0 / 15},  {WeightFormat::kQ8_0, 1.0 / 127},
      {WeightFormat::kQ4_K, 2.0 / 15},  {WeightFormat::kQ6_K, 1.0 / 31},
      {WeightFormat::kQ5_0, 1.0 / 16},  {WeightFormat::kQ5_1, 2.0 / 31},
      {WeightFormat::kQ5_K, 2.0 / 31},  {WeightFormat::kMXFP4, 1.0 / 3},
  };
  for (const auto& [format, step] : steps) {
    const std::vector<uint8_t> bytes = Quantize(format, values);
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), EncodedBytes(format, 4096));
    const std::vector<double> decoded = Dequantize({bytes.data(), format, 2, 2048});
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(decoded[i], values[i], step) << Name(format) << " value " << i;
    }
  }
}

TEST(GgufBlocks, RandomWeightsAreFiniteAndUseEveryCode) {
  std::mt19937_64 rng(3);
  for (const WeightFormat format : kWeightFormats) {
    const std::vector<uint8_t> bytes = RandomWeight(format, 16, 512, rng);
    double largest = 0;
    for (const double value : Dequantize({bytes.data(), format, 16, 512})) {
      ASSERT_TRUE(std::isfinite(value));
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_GT(largest, 0.5) << Name(format);
    EXPECT_LT(largest, 8) << Name(format);
  }
}

}  // namespace
}  // namespace flashinfer::test
