// SPDX-License-Identifier: Apache-2.0
// Scalings of rotary embedding: from keys and tensors of a GGUF file to factors for each pair.
#include "engine/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/error_matchers.h"
#include "support/tiny_model.h"

namespace flashinfer::engine {
namespace {

using test::ExpectError;
using test::GgufWriter;
using test::TinyModel;

RopeConfig Read(std::function<void(GgufWriter&)> extra, bool has_rope_factors = false) {
  TinyModel model;
  model.extra = std::move(extra);
  model.has_rope_factors = has_rope_factors;
  return Checkpoint::FromBytes("m.gguf", MakeTinyGguf(model)).config().rope;
}

TEST(RopeScaling, NoneAndLinear) {
  EXPECT_EQ(Read({}).scale, 1);
  EXPECT_EQ(Read([](GgufWriter& w) { w.Set("llama.rope.scaling.factor", 4.0f); }).scale, 4);
  EXPECT_EQ(Read([](GgufWriter& w) { w.Set("llama.rope.scale_linear", 2.0f); }).scale, 2);
  const RopeConfig linear = Read([](GgufWriter& w) {
    w.Set("llama.rope.scaling.type", "linear");
    w.Set("llama.rope.scaling.factor", 8.0f);
  });
  EXPECT_EQ(linear.scale, 8);
  EXPECT_TRUE(linear.frequency_factors.empty());
  const RopeConfig none = Read([](GgufWriter& w) {
    w.Set("llama.rope.scaling.type", "none");
    w.Set("llama.rope.scaling.factor", 8.0f);
  });
  EXPECT_EQ(none.scale, 1);
}

TEST(RopeScaling, FactorsComeFromTheTensor) {
  const RopeConfig rope = Read({}, /*has_rope_factors=*/true);
  ASSERT_EQ(rope.frequency_factors.size(), 16u);
  for (size_t pair = 0; pair < 16; ++pair) {
    EXPECT_EQ(rope.frequency_factors[pair], 1 + 7 * static_cast<float>(pair) / 16);
  }
}

/// The frequency is a blend of f and f / scale, with a ramp over the pairs between the one that
/// turns 32 times within the context and the one that turns once.
double ExpectedYarnFactor(double scale, double context, int64_t dim, double theta, int64_t pair) {
  const auto index_of = [&](double turns) {
    return dim * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(0.0, std::floor(index_of(32)));
  const double high = std::min(dim - 1.0, std::ceil(index_of(1)));
  const double blend = std::min(1.0, std::max(0.0, (pair - low) / (high - low)));
  const double frequency = std::pow(theta, -2.0 * pair / dim);
  return frequency / (frequency / scale * blend + frequency * (1 - blend));
}

TEST(RopeScaling, YarnBlendsTheFrequencies) {
  const RopeConfig rope = Read([](GgufWriter& w) {
    w.Set("llama.rope.scaling.type", "yarn");
    w.Set("llama.rope.scaling.factor", 4.0f);
    w.Set("llama.rope.scaling.original_context_length", 4096u);
  });
  EXPECT_EQ(rope.scale, 1);
  EXPECT_NEAR(rope.magnitude, 1 + 0.1 * std::log(4.0), 1e-6);
  ASSERT_EQ(rope.frequency_factors.size(), 16u);
  for (int64_t pair = 0; pair < 16; ++pair) {
    EXPECT_NEAR(rope.frequency_factors[static_cast<size_t>(pair)],
                ExpectedYarnFactor(4, 4096, 32, 1e4, pair), 1e-5)
        << pair;
  }
  EXPECT_EQ(rope.frequency_factors.front(), 1);  // turns often: kept
  EXPECT_EQ(rope.frequency_factors.back(), 4);   // turns less than once: scaled wholly
}

TEST(RopeScaling, YarnOfQwen2IsWhatItsPublishedCodeGives) {
  // head_dim 128, theta 1e6, 32768 tokens, factor 4: the ramp is from pair 23 to 40.
  const YarnOptions options{.factor = 4, .original_context = 32768};
  EXPECT_DOUBLE_EQ(YarnFrequencyFactor(options, 128, 1e6, 23), 1);
  EXPECT_GT(YarnFrequencyFactor(options, 128, 1e6, 24), 1);
  EXPECT_LT(YarnFrequencyFactor(options, 128, 1e6, 39), 4);
  EXPECT_DOUBLE_EQ(YarnFrequencyFactor(options, 128, 1e6, 40), 4);
}

TEST(RopeScaling, AFactorOfMagnitudeAppliesToEveryType) {
  const RopeConfig rope =
      Read([](GgufWriter& w) { w.Set("llama.rope.scaling.attn_factor", 1.5f); });
  EXPECT_EQ(rope.magnitude, 1.5f);
  ExpectError(ErrorKind::kUnsupported, "only the whole head of 32", [] {
    Read([](GgufWriter& w) {
      w.Set("llama.rope.scaling.attn_factor", 1.5f);
      w.Set("llama.rope.dimension_count", 16u);
    });
  });
}

TEST(RopeScaling, BadValuesAreRefused) {
  const auto expect = [](ErrorKind kind, const char* words, auto key, auto value) {
    ExpectError(kind, words, [&] {
      Read([&](GgufWriter& w) { w.Set(std::string("llama.rope.") + key, value); });
    });
  };
  constexpr auto kBad = ErrorKind::kInvalidArgument;
  expect(ErrorKind::kUnsupported, "rope.scaling.type is 'longrope', none, linear and yarn",
         "scaling.type", "longrope");
  expect(kBad, "llama.rope.scaling.factor is 0, a positive", "scaling.factor", 0.0f);
  expect(kBad, "llama.rope.scaling.factor is nan", "scaling.factor", std::nanf(""));
  expect(kBad, "llama.rope.dimension_count is 33", "dimension_count", 33u);
  expect(kBad, "llama.rope.dimension_count is 34", "dimension_count", 34u);
  expect(kBad, "llama.rope.dimension_count is 0", "dimension_count", 0u);
  ExpectError(kBad, "tensor 'rope_freqs.weight' must be [16] of F32", [] {
    Read([](GgufWriter& w) {
      w.AddTensor("rope_freqs.weight", {15}, WeightFormat::kF32, std::vector<float>(15, 1));
    });
  });
  ExpectError(kBad, "tensor 'rope_freqs.weight' holds 0", [] {
    Read([](GgufWriter& w) {
      w.AddTensor("rope_freqs.weight", {16}, WeightFormat::kF32, std::vector<float>(16, 0));
    });
  });
  ExpectError(kBad, "YaRN with llama.rope.scaling.factor 0.5", [] {
    Read([](GgufWriter& w) {
      w.Set("llama.rope.scaling.type", "yarn");
      w.Set("llama.rope.scaling.factor", 0.5f);
    });
  });
}

}  // namespace
}  // namespace flashinfer::engine
