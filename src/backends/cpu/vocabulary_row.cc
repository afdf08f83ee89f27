// SPDX-License-Identifier: Apache-2.0
// Chunks and extremes of a row of a vocabulary.
#include "backends/cpu/vocabulary_row.h"

#include <algorithm>
#include <limits>

namespace flashinfer::cpu {

Chunks::Chunks(int64_t vocab_size) : vocab_size_(vocab_size) {
  constexpr int64_t kElementsPerChunk = 16384;
  constexpr int64_t kAlignment = kVocabularyBlock;  // and no cache line is in two chunks
  count_ = static_cast<int>(std::clamp<int64_t>(vocab_size / kElementsPerChunk, 1, kMaxChunks));
  size_ = (vocab_size / count_) / kAlignment * kAlignment;
}

VocabularyRow RowOf(const VocabularyRows& rows, int64_t index, float temperature) {
  constexpr float kLog2E = 1.44269504088896340736f;
  constexpr float kMaxFloat = std::numeric_limits<float>::max();
  const int64_t bytes = index * rows.stride * SizeBytes(rows.dtype);
  return {.data = static_cast<const char*>(rows.data) + bytes,
          .dtype = rows.dtype,
          .are_logits = rows.are_logits,
          .is_uniform = temperature == 0,
          .scale = temperature == 0 ? 1.0f : std::min(kLog2E / temperature, kMaxFloat),
          .max = 0};
}

Extremes ExtremesOf(const VocabularyRow& row, const Chunks& chunks,
                    const VocabularyKernelTable& kernels, float* maxima) {
  std::array<Extremes, Chunks::kMaxChunks> parts{};
  chunks.ForEach([&](int i) {
    const int64_t begin = chunks.begin(i);
    float* of_chunk =
        maxima == nullptr ? nullptr : maxima + begin / kVocabularyBlock * kernels.groups_per_block;
    parts[static_cast<size_t>(i)] = kernels.extremes(row, begin, chunks.end(i), of_chunk);
  });
  Extremes all = parts[0];
  for (int i = 1; i < chunks.count(); ++i) {
    const Extremes& part = parts[static_cast<size_t>(i)];
    if (part.max > all.max) {
      all.max = part.max;
      all.max_index = part.max_index;
    }
    all.min = std::min(all.min, part.min);
    all.has_nan |= part.has_nan;
  }
  return all;
}

bool IsDistribution(const VocabularyRow& row, const Extremes& extremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (extremes.has_nan || extremes.max == kInfinity) return false;
  return row.are_logits ? extremes.max > -kInfinity : extremes.max > 0 && extremes.min >= 0;
}

KeptParts KeptOf(const VocabularyRow& row, const Chunks& chunks, const Cut& cut,
                 const VocabularyKernelTable& kernels) {
  std::array<Mass, Chunks::kMaxChunks> masses{};
  chunks.ForEach([&](int i) {
    masses[static_cast<size_t>(i)] = kernels.weigh(row, chunks.begin(i), chunks.end(i), cut);
  });
  const double tie_weight = cut.num_ties > 0 ? kernels.weight(row, cut.value) : 0;
  KeptParts kept;
  int64_t ties_left = cut.num_ties;
  for (size_t i = 0; i < static_cast<size_t>(chunks.count()); ++i) {
    kept.num_ties[i] = std::min(ties_left, masses[i].num_ties);
    ties_left -= kept.num_ties[i];
    kept.weight[i] = masses[i].above + static_cast<double>(kept.num_ties[i]) * tie_weight;
    kept.total += kept.weight[i];
  }
  return kept;
}

double MassOf(const VocabularyRow& row, const Chunks& chunks,
              const VocabularyKernelTable& kernels) {
  return KeptOf(row, chunks, {-std::numeric_limits<float>::infinity(), 0}, kernels).total;
}

int64_t DrawToken(const VocabularyRow& row, const Chunks& chunks, const Cut& cut, double uniform,
                  const VocabularyKernelTable& kernels) {
  const KeptParts kept = KeptOf(row, chunks, cut, kernels);
  const double target = uniform * kept.total;
  double before = 0;
  size_t chosen = 0;
  double local_target = target;
  for (size_t i = 0; i < static_cast<size_t>(chunks.count()); ++i) {
    if (kept.weight[i] > 0) {
      chosen = i;
      local_target = target - before;
    }
    before += kept.weight[i];
    if (before >= target) break;
  }
  const int chunk = static_cast<int>(chosen);
  return kernels.locate(row, chunks.begin(chunk), chunks.end(chunk),
                        {cut.value, kept.num_ties[chosen]}, local_target);
}

}  // namespace flashinfer::cpu
