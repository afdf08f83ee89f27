// SPDX-License-Identifier: Apache-2.0
// Chunks and extremes of a row of a vocabulary.
#include "backends/cpu/vocabulary_row.h"

#include <algorithm>
#include <limits>

namespace flashinfer::cpu {

Chunks::Chunks(int64_t vocab_size) : vocab_size_(vocab_size) {
  constexpr int64_t kElementsPerChunk = 16384;
  constexpr int64_t kAlignment = 256;  // elements: no cache line is in two chunks
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
                    const VocabularyKernelTable& kernels) {
  std::array<Extremes, Chunks::kMaxChunks> parts{};
  chunks.ForEach([&](int i) {
    parts[static_cast<size_t>(i)] = kernels.extremes(row, chunks.begin(i), chunks.end(i));
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

}  // namespace flashinfer::cpu
