// SPDX-License-Identifier: Apache-2.0
// Linear layers against a float64 product of dequantised weights.
#include "support/checks/linear.h"

#include <algorithm>
#include <cmath>

#include "ops/linear.h"
#include "support/device.h"
#include "support/gguf_blocks.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

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

}  // namespace

void CheckLinear(const LinearCase& c, CaseRun& run) {
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
  run.ForEachCandidate<LinearOp>({c.format, c.rows, c.cols}, c, [&](Trial& trial) {
    const PackedWeight weight(in.view, {.backend = trial.backend(), .device = trial.device()});
    trial.ExpectTrue("the weight says who packed it", weight.backend() == trial.candidate());
    HostTensor out(c.dtype_out, {c.num_tokens, c.rows}, {c.rows + c.padding, 1});
    DeviceCopies on(trial.device());
    Linear(on(in.x), weight, on(out),
           {.bias = c.has_bias ? on(in.bias) : TensorView(),
            .residual = c.has_residual ? on(in.residual) : TensorView()});
    on.Fetch();
    const std::vector<double> values = out.Values();
    for (size_t i = 0; i < values.size(); ++i) {
      Tolerance loose = ToleranceOf(c.dtype_out, c.cols);
      loose.absolute = loose.absolute * size + bounds[i];
      trial.ExpectNear("out", {static_cast<int64_t>(i)}, values[i], exact[i], loose);
    }
    // Ties in the rounding of an activation or two may go the other way in float32.
    Tolerance tight = ToleranceOf(c.dtype_out, c.cols);
    tight.absolute *= size;
    if (quantized) tight.absolute += 0.15 * spread;
    if (c.format != WeightFormat::kBF16) {
      trial.Expect("out", Mismatch(out, rounded, tight));
    }
  });
}

}  // namespace flashinfer::test
