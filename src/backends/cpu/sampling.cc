// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax on the CPU: the steps of a row.
#include "backends/cpu/sampling.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backends/cpu/leading_tokens.h"
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

void SampleRow(const SamplingParams& params, int64_t index, const VocabularyKernelTable& kernels) {
  static thread_local LeadingTokens leading;
  const int64_t vocab_size = params.rows.vocab_size;
  const Chunks chunks(vocab_size);
  VocabularyRow row = RowOf(params.rows, params.indices[index], params.temperature[index]);
  const Extremes extremes = leading.Scan(row, chunks, kernels);
  if (!IsDistribution(row, extremes)) return Write(params.out, index, 0, false);
  row.max = row.is_uniform ? 0 : extremes.max;
  Filters filters{.top_p = params.top_p[index], .min_p = params.min_p[index]};
  const int64_t top_k = params.top_k[index];
  const bool has_top_k = top_k > 0 && top_k < vocab_size;
  if (has_top_k) {
    if (filters.top_p < 1 && params.filter_order == FilterOrder::kJoint) {
      filters.mass = MassOf(row, chunks, kernels);
    }
    leading.List(row, chunks, top_k, LeadingTokens::Ties::kLowestIndex, kernels);
  }
  const VocabularyRow kept = has_top_k ? leading.AsRow(row) : row;
  const int64_t num_kept = has_top_k ? top_k : vocab_size;
  const Chunks parts(num_kept);
  const Cut cut = CutOf(kept, parts, num_kept, filters, kernels);
  const bool has_own_seed = params.seed.data != nullptr;
  const double uniform = PhiloxUniform(static_cast<uint64_t>(params.seed[index]),
                                       has_own_seed ? 0 : static_cast<uint64_t>(index),
                                       static_cast<uint64_t>(params.offset[index]));
  const int64_t token = DrawToken(kept, parts, cut, uniform, kernels);
  Write(params.out, index, has_top_k ? leading.indices()[token] : token, true);
}

}  // namespace

bool AcceptsVocabulary(const VocabularyProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF16 &&
      problem.dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  return true;
}

void Softmax(const SoftmaxParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.logits.num_rows, params.logits.vocab_size,
             [&](int64_t row) { SoftmaxRow(params, row, kernels); });
}

void Sample(const SamplingParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.num_outputs, params.rows.vocab_size,
             [&](int64_t row) { SampleRow(params, row, kernels); });
}

void ArgMax(const ArgMaxParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.logits.num_rows, params.logits.vocab_size, [&](int64_t index) {
    const VocabularyRow row = RowOf(params.logits, index, 1.0f);
    const Extremes extremes = ExtremesOf(row, Chunks(params.logits.vocab_size), kernels);
    const bool has_max = extremes.max > -std::numeric_limits<float>::infinity();
    Write(params.out, index, has_max ? extremes.max_index : 0, has_max && !extremes.has_nan);
  });
}

}  // namespace flashinfer::cpu
