// SPDX-License-Identifier: Apache-2.0
// The first tokens of a row by (value descending, index), listed: a few of a large vocabulary.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/sampling.h"
#include "backends/cpu/vocabulary_row.h"

namespace flashinfer::cpu {

/// Finds them by one pass over the row. It takes the maxima of groups of some tens of elements; the
/// count-th of these bounds the count-th value of the row from below, since each is an element of
/// its own. Blocks with a maximum that is not below the bound, few when the count is, are looked at
/// again. Keeps its memory for the next row.
class LeadingTokens {
 public:
  /// Of the whole row. A row with NaN has no leading tokens.
  Extremes Scan(const VocabularyRow& row, const Chunks& chunks,
                const VocabularyKernelTable& kernels);

  /// Lists the first `count` tokens of the row that was scanned last, from 1 to all. Of the ties at
  /// the end those of the lowest index are taken, or of the highest.
  enum class Ties { kLowestIndex, kHighestIndex };
  void List(const VocabularyRow& row, const Chunks& chunks, int64_t count, Ties ties,
            const VocabularyKernelTable& kernels);

  /// In vocabulary order.
  int64_t count() const { return count_; }
  const float* values() const { return values_.get(); }
  const int32_t* indices() const { return indices_.get(); }

  /// What keeps them, of the whole row.
  const Cut& cut() const { return cut_; }
  /// A row of their own, with the weights that they have in `row`.
  VocabularyRow AsRow(const VocabularyRow& row) const;

 private:
  void Reserve(int64_t size);
  void Keep(int64_t count, Ties ties);

  int64_t capacity_ = 0;
  std::unique_ptr<float[]> maxima_;
  std::unique_ptr<float[]> values_;
  std::unique_ptr<int32_t[]> indices_;
  int64_t count_ = 0;
  Cut cut_{};
};

}  // namespace flashinfer::cpu
