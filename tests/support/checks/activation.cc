// SPDX-License-Identifier: Apache-2.0
// Gated activations against a float64 loop.
#include "support/checks/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "support/mismatch.h"

namespace flashinfer::test {
double ApplyActivation(ActivationKind kind, double x) {
  if (kind == ActivationKind::kSilu) return x / (1 + std::exp(-x));
  if (kind == ActivationKind::kGelu) return x * std::erfc(-x / std::numbers::sqrt2) / 2;
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x * (1 + std::tanh(u)) / 2;
}

std::vector<double> ActivationOracle(const ActivationCase& c, const std::vector<double>& x) {
  const auto size = static_cast<size_t>(c.size);
  double largest = std::numeric_limits<double>::infinity();
  if (c.dtype_out == DType::kE4M3) largest = 448;
  if (c.dtype_out == DType::kE5M2) largest = 57344;
  std::vector<double> out(x.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = i / size * 2 * size + i % size;
    const double y =
        ApplyActivation(c.kind, x[at]) * x[at + size] / static_cast<double>(c.out_scale);
    out[i] = std::clamp(y, -largest, largest);
  }
  return out;
}

void RunActivation(ActivationKind kind, const TensorView& x, const TensorView& out,
                   const ActivationOptions& options) {
  if (kind == ActivationKind::kSilu) return SiluAndMul(x, out, options);
  (kind == ActivationKind::kGelu ? GeluAndMul : GeluTanhAndMul)(x, out, options, {});
}

void CheckActivation(const ActivationCase& c, CaseRun& run) {
  std::mt19937_64 rng(5);
  HostTensor scale(DType::kF32, {1});
  scale.Fill(static_cast<double>(c.out_scale));
  bool scale_from_tensor = false;
  run.ForEachCandidate<ActivationOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor x(c.dtype, {c.num_tokens, 2 * c.size}, {2 * c.size + c.row_padding, 1});
    x.FillNormal(rng, 2.0);
    HostTensor out(c.dtype_out, {c.num_tokens, c.size}, {c.size + c.row_padding, 1});
    ActivationOptions options{.out_scale = c.out_scale, .backend = trial.backend()};
    if (scale_from_tensor) {
      options.out_scale = 7.0f;  // not to be read
      options.out_scale_tensor = on(scale);
    }
    scale_from_tensor = !scale_from_tensor;
    RunActivation(c.kind, on(x), on(out), options);
    on.Fetch();
    trial.Expect("out", Mismatch(out, ActivationOracle(c, x.Values()), ToleranceOf(c.dtype_out)));
  });
}

}  // namespace flashinfer::test
