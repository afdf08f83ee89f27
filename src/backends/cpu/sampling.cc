// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax on the CPU: the steps of a row.
#include "backends/cpu/sampling.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backends/cpu/vocabulary_row.h"
#include "core/philox.h"

namespace flashinfer::cpu {
namespace {

void Write(const TokenOutputs& out, int64_t row, int64_t token, bool valid) {
  out.tokens[row * out.tokens_stride] = static_cast<int32_t>(token);
  if (out.valid != nullptr) out.valid[row * out.valid_stride] = valid;
}

void SoftmaxRow(const SoftmaxParams& params, int64_t index, const VocabularyKernelTable& kernels) {
  const Chunks chunks(params.logits.vocab_size);
  VocabularyRow row = RowOf(params.logits, index, params.temperature[index]);
  float* out = params.probs + index * params.probs_stride;
  const Extremes extremes = ExtremesOf(row, chunks, kernels);
  if (!IsDistribution(row, extremes)) {
    std::fill_n(out, params.logits.vocab_size, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  row.max = row.is_uniform ? 0 : extremes.max;
  std::array<double, Chunks::kMaxChunks> sums{};
  chunks.ForEach([&](int i) {
    sums[static_cast<size_t>(i)] =
        kernels.exponentiate(row, chunks.begin(i), chunks.end(i), out + chunks.begin(i));
  });
  double sum = 0;
  for (double part : sums) sum += part;
  chunks.ForEach([&](int i) {
    kernels.multiply(out + chunks.begin(i), chunks.end(i) - chunks.begin(i),
                     static_cast<float>(1 / sum));
  });
}

/// The token at which the cumulative weight of the kept ones, in vocabulary order, reaches
/// `uniform` of their whole weight.
int64_t Draw(const VocabularyRow& row, const Chunks& chunks, Cut cut, double uniform,
             const VocabularyKernelTable& kernels) {
  std::array<Mass, Chunks::kMaxChunks> masses;
  chunks.ForEach([&](int i) {
    masses[static_cast<size_t>(i)] = kernels.weigh(row, chunks.begin(i), chunks.end(i), cut);
  });
  const double tie_weight = cut.num_ties > 0 ? kernels.weight(row, cut.value) : 0;
  // Ties are kept in vocabulary order, so the first chunks take them.
  std::array<double, Chunks::kMaxChunks> weights{};
  std::array<int64_t, Chunks::kMaxChunks> ties{};
  double total = 0;
  for (size_t i = 0; i < static_cast<size_t>(chunks.count()); ++i) {
    ties[i] = std::min(cut.num_ties, masses[i].num_ties);
    cut.num_ties -= ties[i];
    weights[i] = masses[i].above + static_cast<double>(ties[i]) * tie_weight;
    total += weights[i];
  }
  const double target = uniform * total;
  double before = 0;
  size_t chosen = 0;
  double local_target = target;
  for (size_t i = 0; i < static_cast<size_t>(chunks.count()); ++i) {
    if (weights[i] > 0) {
      chosen = i;
      local_target = target - before;
    }
    before += weights[i];
    if (before >= target) break;
  }
  const int chunk = static_cast<int>(chosen);
  return kernels.locate(row, chunks.begin(chunk), chunks.end(chunk), {cut.value, ties[chosen]},
                        local_target);
}

void SampleRow(const SamplingParams& params, int64_t index, const VocabularyKernelTable& kernels) {
  const Chunks chunks(params.rows.vocab_size);
  VocabularyRow row = RowOf(params.rows, index, params.temperature[index]);
  const Extremes extremes = ExtremesOf(row, chunks, kernels);
  if (!IsDistribution(row, extremes)) return Write(params.out, index, 0, false);
  row.max = row.is_uniform ? 0 : extremes.max;
  const Filters filters{.top_k = params.top_k[index],
                        .top_p = params.top_p[index],
                        .min_p = params.min_p[index],
                        .order = params.filter_order};
  const Cut cut = CutOf(row, chunks, params.rows.vocab_size, filters, kernels);
  const bool has_own_seed = params.seed.data != nullptr;
  const double uniform = PhiloxUniform(static_cast<uint64_t>(params.seed[index]),
                                       has_own_seed ? 0 : static_cast<uint64_t>(index),
                                       static_cast<uint64_t>(params.offset[index]));
  Write(params.out, index, Draw(row, chunks, cut, uniform, kernels), true);
}

}  // namespace

bool AcceptsVocabulary(const VocabularyProblem& problem, std::string* why) {
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF16 &&
      problem.dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  return true;
}

void Softmax(const SoftmaxParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.logits, [&](int64_t row) { SoftmaxRow(params, row, kernels); });
}

void Sample(const SamplingParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.rows, [&](int64_t row) { SampleRow(params, row, kernels); });
}

void ArgMax(const ArgMaxParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.logits, [&](int64_t index) {
    const VocabularyRow row = RowOf(params.logits, index, 1.0f);
    const Extremes extremes = ExtremesOf(row, Chunks(params.logits.vocab_size), kernels);
    const bool has_max = extremes.max > -std::numeric_limits<float>::infinity();
    Write(params.out, index, has_max ? extremes.max_index : 0, has_max && !extremes.has_nan);
  });
}

}  // namespace flashinfer::cpu
