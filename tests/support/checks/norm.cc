// SPDX-License-Identifier: Apache-2.0
// The norms against a float64 loop.
#include "support/checks/norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "flashinfer/norm.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

constexpr double kEps = 1e-5;

double LargestOf(DType dtype) {
  if (dtype == DType::kE4M3) return 448;
  return dtype == DType::kE5M2 ? 57344 : std::numeric_limits<double>::infinity();
}

/// One row; `x` is what is normalised, the sum with the residual if there is one.
void NormRow(const NormCase& c, const std::vector<double>& weight, const std::vector<double>& bias,
             const double* x, double* out) {
  const size_t size = weight.size();
  double mean = 0;
  if (c.kind == NormKind::kLayer) {
    for (size_t i = 0; i < size; ++i) mean += x[i] / static_cast<double>(size);
  }
  double square = 0;
  for (size_t i = 0; i < size; ++i) {
    square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(size);
  }
  for (size_t i = 0; i < size; ++i) {
    double y = (x[i] - mean) / std::sqrt(square + kEps);
    y *= c.kind == NormKind::kGemma ? 1 + weight[i] : weight[i];
    if (c.kind == NormKind::kLayer) y += bias[i];
    const double largest = LargestOf(c.dtype_out);
    out[i] = std::clamp(y / static_cast<double>(c.out_scale), -largest, largest);
  }
}

HostTensor MakeRows(const NormCase& c, DType dtype) {
  const int64_t row = c.hidden_size + c.row_padding;
  if (c.num_heads == 0) return {dtype, {c.num_rows, c.hidden_size}, {row, 1}, c.offset};
  return {dtype,
          {c.num_rows, c.num_heads, c.hidden_size},
          {c.num_heads * row + c.row_padding, row, 1},
          c.offset};
}

/// Sums, and what the residual holds after: their rounding to its dtype.
struct Sums {
  std::vector<double> exact;
  std::vector<double> rounded;
};

Sums AddResidual(std::vector<double> x, const HostTensor& residual) {
  Sums sums{.exact = std::move(x), .rounded = {}};
  const std::vector<double> values = residual.Values();
  HostTensor rounded(residual.view().dtype(), {1});
  sums.rounded.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    sums.exact[i] += values[i];
    rounded.Set({0}, sums.exact[i]);
    sums.rounded.push_back(rounded.At({0}));
  }
  return sums;
}

struct Inputs {
  HostTensor weight;
  HostTensor bias;
};

void RunNorm(const NormCase& c, const Inputs& in, const HostTensor& x, const HostTensor& residual,
             const HostTensor& out, DeviceCopies& on, const NormOptions& options) {
  const TensorView weight = on(in.weight);
  if (c.kind == NormKind::kLayer) return LayerNorm(on(x), weight, on(in.bias), on(out), options);
  const bool is_gemma = c.kind == NormKind::kGemma;
  if (c.adds_residual) {
    const auto run = is_gemma ? GemmaFusedAddRmsNorm : FusedAddRmsNorm;
    return run(on(x), on(residual), weight, on(out), options, {});
  }
  (is_gemma ? GemmaRmsNorm : RmsNorm)(on(x), weight, on(out), options, {});
}

}  // namespace

void CheckNorm(const NormCase& c, CaseRun& run) {
  std::mt19937_64 rng(7);
  Inputs in{HostTensor(c.dtype_weight, {c.hidden_size}),
            HostTensor(c.dtype_weight, {c.hidden_size})};
  in.weight.FillNormal(rng);
  in.bias.FillNormal(rng);
  HostTensor scale(DType::kF32, {1});
  scale.Fill(static_cast<double>(c.out_scale));
  bool scale_from_tensor = false;
  run.ForEachCandidate<NormOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor x = MakeRows(c, c.dtype);
    HostTensor residual = MakeRows(c, c.dtype);
    x.FillNormal(rng);
    Sums sums{.exact = x.Values(), .rounded = {}};
    if (c.adds_residual) sums = AddResidual(x.Values(), residual.FillNormal(rng));
    std::vector<double> expected(sums.exact.size());
    for (size_t at = 0; at < expected.size(); at += static_cast<size_t>(c.hidden_size)) {
      NormRow(c, in.weight.Values(), in.bias.Values(), &sums.exact[at], &expected[at]);
    }
    HostTensor separate = MakeRows(c, c.dtype_out);
    const HostTensor& out = c.in_place ? x : separate;
    NormOptions options{
        .eps = static_cast<float>(kEps), .out_scale = c.out_scale, .backend = trial.backend()};
    if (scale_from_tensor) {
      options.out_scale = 7.0f;  // not to be read
      options.out_scale_tensor = on(scale);
    }
    scale_from_tensor = !scale_from_tensor;
    RunNorm(c, in, x, residual, out, on, options);
    on.Fetch();
    trial.Expect("out", Mismatch(out, expected, ToleranceOf(c.dtype_out, c.hidden_size)));
    if (c.adds_residual) {
      trial.Expect("residual", Mismatch(residual, sums.rounded, {0, 0}));
    }
  });
}

}  // namespace flashinfer::test
