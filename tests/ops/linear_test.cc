// SPDX-License-Identifier: Apache-2.0
// Linear layers: every format and candidate against a float64 product of dequantised weights.
#include "ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/candidates.h"
#include "support/cases/linear.h"
#include "support/compare.h"
#include "support/gguf_blocks.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Activations as quantised weights meet them: rounded to 8 bits per 32 columns.
std::vector<double> RoundTo8Bits(std::vector<double> x) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    double amax = 0;
    for (size_t i = begin; i < begin + 32; ++i) amax = std::max(amax, std::abs(x[i]));
    for (size_t i = begin; i < begin + 32; ++i) {
      x[i] = amax == 0 ? 0 : std::nearbyint(x[i] * 127 / amax) * amax / 127;
    }
  }
  return x;
}

struct Inputs {
  HostTensor x;
  HostTensor bias;
  HostTensor residual;
  std::vector<uint8_t> weight;
  WeightView view;
};

Inputs MakeInputs(const LinearCase& c, std::mt19937_64& rng) {
  Inputs in{HostTensor(c.dtype_x, {c.num_tokens, c.cols}, {c.cols + c.padding, 1}),
            HostTensor(DType::kF32, {c.rows}),
            HostTensor(c.dtype_out, {c.num_tokens, c.rows}, {c.rows + c.padding, 1}),
            RandomWeight(c.format, c.rows, c.cols, rng),
            {}};
  in.x.FillNormal(rng);
  in.bias.FillNormal(rng);
  in.residual.FillNormal(rng);
  in.view = {in.weight.data(), c.format, c.rows, c.cols};
  return in;
}

std::vector<double> Oracle(const LinearCase& c, const Inputs& in, const std::vector<double>& x) {
  const std::vector<double> w = Dequantize(in.view);
  const std::vector<double> bias = in.bias.Values();
  const std::vector<double> residual = in.residual.Values();
  std::vector<double> out(static_cast<size_t>(c.num_tokens * c.rows));
  for (int64_t t = 0; t < c.num_tokens; ++t) {
    for (int64_t r = 0; r < c.rows; ++r) {
      double sum = c.has_bias ? bias[static_cast<size_t>(r)] : 0;
      for (int64_t k = 0; k < c.cols; ++k) {
        sum += x[static_cast<size_t>(t * c.cols + k)] * w[static_cast<size_t>(r * c.cols + k)];
      }
      const size_t at = static_cast<size_t>(t * c.rows + r);
      out[at] = sum + (c.has_residual ? residual[at] : 0);
    }
  }
  return out;
}

/// How far rounding x may move each output: half a step of 8 bits per 32 columns for quantised
/// weights, 2^-8 of each element for bf16 weights (on instruction sets that multiply bf16 pairs).
std::vector<double> RoundingBounds(const LinearCase& c, const Inputs& in) {
  const std::vector<double> w = Dequantize(in.view);
  const std::vector<double> x = in.x.Values();
  std::vector<double> bounds(static_cast<size_t>(c.num_tokens * c.rows));
  for (size_t at = 0; at < bounds.size(); ++at) {
    const double* wr = w.data() + at % static_cast<size_t>(c.rows) * static_cast<size_t>(c.cols);
    const double* xt = x.data() + at / static_cast<size_t>(c.rows) * static_cast<size_t>(c.cols);
    for (int64_t k = 0; k < c.cols; ++k) {
      double step = std::abs(xt[k]) / 256;
      if (BlockSize(c.format) > 1) {
        double amax = 0;
        for (int64_t i = k / 32 * 32; i < k / 32 * 32 + 32; ++i)
          amax = std::max(amax, std::abs(xt[i]));
        step = amax / 254;
      }
      bounds[at] += std::abs(wr[k]) * step;
    }
  }
  return bounds;
}

/// Root mean square of the weights.
double Spread(const Inputs& in) {
  double sum = 0;
  const std::vector<double> w = Dequantize(in.view);
  for (double v : w) sum += v * v;
  return std::sqrt(sum / static_cast<double>(w.size()));
}

class LinearCaseTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearCaseTest, EveryCandidateMatchesTheOracle) {
  const LinearCase& c = GetParam();
  std::mt19937_64 rng(11);
  const Inputs in = MakeInputs(c, rng);
  const std::vector<double> exact = Oracle(c, in, in.x.Values());
  const std::vector<double> bounds = RoundingBounds(c, in);
  const bool quantized = BlockSize(c.format) > 1;
  const double spread = Spread(in);
  // The tolerance is for outputs of order 1.
  const double size = std::max(1.0, spread * std::sqrt(static_cast<double>(c.cols)));
  const std::vector<double> rounded =
      quantized ? Oracle(c, in, RoundTo8Bits(in.x.Values())) : exact;
  for (const std::string& candidate : AcceptingCandidates<LinearOp>({c.format, c.rows, c.cols})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    const PackedWeight weight(in.view, Backend(candidate));
    EXPECT_EQ(weight.backend(), candidate);
    HostTensor out(c.dtype_out, {c.num_tokens, c.rows}, {c.rows + c.padding, 1});
    Linear(in.x, weight, out,
           {.bias = c.has_bias ? in.bias.view() : TensorView(),
            .residual = c.has_residual ? in.residual.view() : TensorView()});
    const std::vector<double> values = out.Values();
    for (size_t i = 0; i < values.size(); ++i) {
      Tolerance loose = ToleranceOf(c.dtype_out, c.cols);
      loose.absolute = loose.absolute * size + bounds[i];
      ASSERT_TRUE(Near(values[i], exact[i], loose)) << i << ": " << values[i] << ", " << exact[i];
    }
    // Ties in the rounding of an activation or two may go the other way in float32.
    Tolerance tight = ToleranceOf(c.dtype_out, c.cols);
    tight.absolute *= size;
    if (quantized) tight.absolute += 0.15 * spread;
    if (c.format != WeightFormat::kBF16) {
      EXPECT_TRUE(AllNear(out, rounded, tight));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, LinearCaseTest, ::testing::ValuesIn(LinearCases()));

TEST(Linear, SourcesPackedTogetherFollowEachOtherInTheOutput) {
  std::mt19937_64 rng(12);
  const std::vector<uint8_t> a = RandomWeight(WeightFormat::kQ4_1, 20, 256, rng);
  const std::vector<uint8_t> b = RandomWeight(WeightFormat::kBF16, 7, 256, rng);
  const std::vector<uint8_t> c = RandomWeight(WeightFormat::kQ6_K, 33, 256, rng);
  const WeightView sources[] = {{a.data(), WeightFormat::kQ4_1, 20, 256},
                                {b.data(), WeightFormat::kBF16, 7, 256},
                                {c.data(), WeightFormat::kQ6_K, 33, 256}};
  HostTensor x(DType::kF32, {5, 256});
  x.FillNormal(rng);
  std::vector<const void*> released;
  const PackedWeight together(
      sources, Backend(),
      [](void* context, const WeightView& source) {
        static_cast<std::vector<const void*>*>(context)->push_back(source.data);
      },
      &released);
  EXPECT_EQ(released, (std::vector<const void*>{a.data(), b.data(), c.data()}));
  ASSERT_EQ(together.rows(), 60);
  HostTensor out(DType::kF32, {5, 60});
  Linear(x, together, out);
  int64_t first = 0;
  for (const WeightView& source : sources) {
    HostTensor alone(DType::kF32, {5, source.rows});
    Linear(x, PackedWeight(source), alone);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < source.rows; ++r) {
        EXPECT_EQ(out.At({t, first + r}), alone.At({t, r}));
      }
    }
    first += source.rows;
  }
}

TEST(Linear, ATokenThatIsNotFiniteStaysAlone) {
  std::mt19937_64 rng(13);
  for (WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kF32, WeightFormat::kBF16}) {
    const std::vector<uint8_t> data = RandomWeight(format, 40, 64, rng);
    const PackedWeight weight({data.data(), format, 40, 64});
    HostTensor x(DType::kF32, {9, 64});
    x.FillNormal(rng);
    HostTensor clean(DType::kF32, {9, 40});
    Linear(x, weight, clean);
    x.Set({4, 3}, std::nan(""));
    x.Set({6, 60}, HUGE_VAL);
    HostTensor out(DType::kF32, {9, 40});
    Linear(x, weight, out);
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t r = 0; r < 40; ++r) {
        if (t == 4 || t == 6) {
          EXPECT_FALSE(std::isfinite(out.At({t, r})));
        } else {
          EXPECT_EQ(out.At({t, r}), clean.At({t, r}));
        }
      }
    }
  }
}

TEST(Linear, GatherRowsDequantisesExactly) {
  std::mt19937_64 rng(14);
  for (WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kQ4_0,
        WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K,
        WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ5_K, WeightFormat::kMXFP4}) {
    SCOPED_TRACE(Name(format));
    const std::vector<uint8_t> data = RandomWeight(format, 37, 256, rng);
    const WeightView view{data.data(), format, 37, 256};
    const PackedWeight weight(view);
    HostTensor ids(DType::kI32, {4});
    ids.FillWith({36, 0, 17, 36});
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      HostTensor out(dtype, {4, 256}, {260, 1});
      weight.GatherRows(ids, out);
      const std::vector<double> all = Dequantize(view);
      std::vector<double> expected;
      for (int64_t row : {36, 0, 17, 36}) {
        expected.insert(expected.end(), all.begin() + row * 256, all.begin() + (row + 1) * 256);
      }
      EXPECT_TRUE(AllNear(out, expected, {1e-6, dtype == DType::kF32 ? 2e-7 : 4e-3}));
    }
    ids.Set({2}, 37);
    HostTensor out(DType::kF32, {4, 256});
    EXPECT_THAT([&] { weight.GatherRows(ids, out); },
                ThrowsMessage<Error>("ids[2]: is 37, accepted: 0 to 36"));
  }
}

TEST(Linear, ErrorsNameArgumentValueAndWhatIsAccepted) {
  std::mt19937_64 rng(15);
  const std::vector<uint8_t> data = RandomWeight(WeightFormat::kQ4_1, 4, 64, rng);
  const PackedWeight weight({data.data(), WeightFormat::kQ4_1, 4, 64});
  HostTensor x(DType::kF32, {2, 32});
  HostTensor out(DType::kF32, {2, 4});
  EXPECT_THAT([&] { Linear(x, weight, out); },
              ThrowsMessage<Error>("x: shape is [2, 32], expected [any, 64]"));
  EXPECT_THAT([&] { Linear(x, PackedWeight(), out); },
              ThrowsMessage<Error>("weight: nothing was packed into it"));
  EXPECT_THAT(
      [&] {
        PackedWeight({data.data(), WeightFormat::kQ4_K, 4, 64});
      },
      ThrowsMessage<Error>(HasSubstr("64 columns of q4_k are not a multiple of the block")));
  EXPECT_THAT(
      [&] {
        PackedWeight({nullptr, WeightFormat::kQ4_1, 4, 64});
      },
      ThrowsMessage<Error>("sources[0]: the data pointer is null"));
}

}  // namespace
}  // namespace flashinfer::test
