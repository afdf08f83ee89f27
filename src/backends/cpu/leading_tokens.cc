// SPDX-License-Identifier: Apache-2.0
// The first tokens of a row, listed.
#include "backends/cpu/leading_tokens.h"

#include <algorithm>
#include <array>
#include <limits>

namespace flashinfer::cpu {
namespace {

int64_t NumBlocks(int64_t size) { return (size + kVocabularyBlock - 1) / kVocabularyBlock; }

}  // namespace

void LeadingTokens::Reserve(int64_t size) {
  if (size <= capacity_) return;
  capacity_ = size;
  const auto count = static_cast<size_t>(size);
  maxima_ = std::make_unique_for_overwrite<float[]>(
      static_cast<size_t>(NumBlocks(size) * kMaxGroupsPerBlock));
  values_ = std::make_unique_for_overwrite<float[]>(count);
  indices_ = std::make_unique_for_overwrite<int32_t[]>(count);
}

Extremes LeadingTokens::Scan(const VocabularyRow& row, const Chunks& chunks,
                             const VocabularyKernelTable& kernels) {
  Reserve(chunks.end(chunks.count() - 1));
  return ExtremesOf(row, chunks, kernels, maxima_.get());
}

void LeadingTokens::List(const VocabularyRow& row, const Chunks& chunks, int64_t count, Ties ties,
                         const VocabularyKernelTable& kernels) {
  const int64_t size = chunks.end(chunks.count() - 1);
  const int64_t num_maxima = NumBlocks(size) * kernels.groups_per_block;
  // With temperature 0 the maxima are not those of the row's values.
  const float bound = count <= num_maxima && !row.is_uniform
                          ? kernels.kth_largest(maxima_.get(), num_maxima, count)
                          : -std::numeric_limits<float>::infinity();
  std::array<int64_t, Chunks::kMaxChunks> counts{};
  chunks.ForEach([&](int i) {
    const int64_t begin = chunks.begin(i);
    const float* maxima = maxima_.get() + begin / kVocabularyBlock * kernels.groups_per_block;
    counts[static_cast<size_t>(i)] = kernels.list(row, begin, chunks.end(i), {bound, maxima},
                                                  {values_.get() + begin, indices_.get() + begin});
  });
  count_ = counts[0];
  for (int i = 1; i < chunks.count(); ++i) {
    const int64_t listed = counts[static_cast<size_t>(i)];
    std::copy_n(values_.get() + chunks.begin(i), listed, values_.get() + count_);
    std::copy_n(indices_.get() + chunks.begin(i), listed, indices_.get() + count_);
    count_ += listed;
  }
  cut_.value = kernels.kth_largest(values_.get(), count_, count);
  Keep(count, ties);
}

void LeadingTokens::Keep(int64_t count, Ties ties) {
  const float* values = values_.get();
  const auto num_above =
      std::count_if(values, values + count_, [&](float value) { return value > cut_.value; });
  const auto num_ties = std::count(values, values + count_, cut_.value);
  cut_.num_ties = count - num_above;
  int64_t skip = ties == Ties::kHighestIndex ? num_ties - cut_.num_ties : 0;
  int64_t ties_left = cut_.num_ties;
  int64_t kept = 0;
  for (int64_t i = 0; i < count_; ++i) {
    const float value = values_[static_cast<size_t>(i)];
    if (value < cut_.value) continue;
    if (value == cut_.value && (skip-- > 0 || ties_left-- <= 0)) continue;
    values_[static_cast<size_t>(kept)] = value;
    indices_[static_cast<size_t>(kept++)] = indices_[static_cast<size_t>(i)];
  }
  count_ = kept;
}

VocabularyRow LeadingTokens::AsRow(const VocabularyRow& row) const {
  VocabularyRow part = row;
  part.data = values_.get();
  part.dtype = DType::kF32;
  return part;
}

}  // namespace flashinfer::cpu
