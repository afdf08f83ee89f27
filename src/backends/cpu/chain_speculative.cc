// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on the CPU: drafts one by one, then one draw over the vocabulary.
#include "backends/cpu/chain_speculative.h"

#include <limits>
#include <vector>

#include "backends/cpu/vocabulary_row.h"
#include "core/philox.h"

namespace flashinfer::cpu {
namespace {

/// Tokens of one row, and its random words.
class Row {
 public:
  Row(const ChainSpeculativeParams& params, int64_t row) : params_(params), row_(row) {}

  double Uniform(int64_t position) const {
    const bool has_own_seed = params_.seed.data != nullptr;
    return PhiloxUniform(
        static_cast<uint64_t>(params_.seed[row_]), has_own_seed ? 0 : static_cast<uint64_t>(row_),
        static_cast<uint64_t>(params_.offset[row_]) + static_cast<uint64_t>(position));
  }
  int32_t DraftToken(int64_t i) const {
    return params_
        .draft_tokens[row_ * params_.draft_tokens_row_stride + i * params_.draft_tokens_stride];
  }
  bool Accepts(int64_t i) const {
    const int32_t token = DraftToken(i);
    return Uniform(i) * static_cast<double>(params_.draft.At(row_, i)[token]) <
           static_cast<double>(params_.target.At(row_, i)[token]);
  }
  void Write(int64_t position, int64_t token) const {
    params_.tokens[row_ * params_.tokens_row_stride + position * params_.tokens_stride] =
        static_cast<int32_t>(token);
  }

 private:
  const ChainSpeculativeParams& params_;
  int64_t row_;
};

VocabularyRow Probabilities(const float* probs) {
  return {.data = probs,
          .dtype = DType::kF32,
          .are_logits = false,
          .is_uniform = false,
          .scale = 1.0f,
          .max = 0};
}

/// Draws from max(0, target - draft), or from target where that is 0 or `draft` is null.
int64_t DrawAfter(const float* target, const float* draft, int64_t vocab_size, double uniform,
                  const VocabularyKernelTable& kernels) {
  static thread_local std::vector<float> difference;
  const Chunks chunks(vocab_size);
  VocabularyRow row = Probabilities(target);
  Extremes extremes{};
  bool has_difference = false;
  if (draft != nullptr) {
    difference.resize(static_cast<size_t>(vocab_size));
    float* out = difference.data();  // of this thread, also inside the region
    chunks.ForEach([&](int i) {
      const int64_t begin = chunks.begin(i);
      kernels.positive_difference(target + begin, draft + begin, chunks.end(i) - begin,
                                  out + begin);
    });
    row.data = out;
    extremes = ExtremesOf(row, chunks, kernels);
    has_difference = extremes.has_nan || extremes.max > 0;
  }
  if (!has_difference) {
    row.data = target;
    extremes = ExtremesOf(row, chunks, kernels);
  }
  if (!IsDistribution(row, extremes)) return 0;
  row.max = extremes.max;
  return DrawToken(row, chunks, {-std::numeric_limits<float>::infinity(), 0}, uniform, kernels);
}

void SampleRow(const ChainSpeculativeParams& params, int64_t index,
               const VocabularyKernelTable& kernels) {
  const Row row(params, index);
  const int64_t num_drafts = params.num_drafts;
  int64_t num_accepted = 0;
  int64_t position = num_drafts;  // of the first rejection
  for (int64_t i = 0; i < num_drafts; ++i) {
    if (row.Accepts(i)) {
      ++num_accepted;
    } else {
      position = std::min(position, i);
    }
  }
  for (int64_t i = 0; i < position; ++i) row.Write(i, row.DraftToken(i));
  const float* draft = position < num_drafts ? params.draft.At(index, position) : nullptr;
  row.Write(position, DrawAfter(params.target.At(index, position), draft, params.vocab_size,
                                row.Uniform(num_drafts), kernels));
  for (int64_t i = position + 1; i <= num_drafts; ++i) row.Write(i, -1);
  params.num_accepted.Add(index, num_accepted);
  params.num_emitted.Add(index, position);
}

}  // namespace

void ChainSpeculative(const ChainSpeculativeParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.num_rows, params.vocab_size,
             [&](int64_t row) { SampleRow(params, row, kernels); });
}

}  // namespace flashinfer::cpu
