// SPDX-License-Identifier: Apache-2.0
// One row of a vocabulary on the CPU: chunks over threads, extremes, filters, kept mass.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/sampling.h"
#include "backends/cpu/thread_pool.h"

namespace flashinfer::cpu {

/// How a row is cut.
class Chunks {
 public:
  static constexpr int kMaxChunks = 8;

  explicit Chunks(int64_t vocab_size);
  int count() const { return count_; }
  int64_t begin(int i) const { return i * size_; }
  int64_t end(int i) const { return i + 1 == count_ ? vocab_size_ : (i + 1) * size_; }

  /// Calls `body(chunk)` for each, over threads where this is not a parallel region already.
  template <class Body>
  void ForEach(Body&& body) const {
    ParallelFor(count_, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) body(static_cast<int>(i));
    });
  }

 private:
  int64_t vocab_size_;
  int64_t size_;
  int count_;
};

/// Calls `body(row)` for each row; over threads when there are many rows or they are short, else
/// rows one after another so that each shares its chunks.
template <class Body>
void ForEachRow(const VocabularyRows& rows, Body&& body) {
  constexpr int64_t kManyRows = 16;
  constexpr int64_t kElementsPerGrain = 16384;
  if (rows.num_rows < kManyRows && Chunks(rows.vocab_size).count() > 1) {
    for (int64_t row = 0; row < rows.num_rows; ++row) body(row);
    return;
  }
  const int64_t grain = kElementsPerGrain / rows.vocab_size;
  ParallelFor(rows.num_rows, grain < 1 ? 1 : grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

/// Row `index` as the kernels take it; `max` is filled by the caller.
VocabularyRow RowOf(const VocabularyRows& rows, int64_t index, float temperature);

/// Of a whole row.
Extremes ExtremesOf(const VocabularyRow& row, const Chunks& chunks,
                    const VocabularyKernelTable& kernels);

/// Whether softmax or the row itself gives a distribution; no NaN, no infinite weight, some weight.
bool IsDistribution(const VocabularyRow& row, const Extremes& extremes);

struct Filters {
  int64_t top_k;  ///< 0: off
  double top_p;   ///< 1: off
  double min_p;   ///< 0: off
  FilterOrder order;
};

/// The cut that keeps what all filters keep: each keeps a prefix of the tokens in their order, so
/// it is the shortest of the prefixes. `row.max` is set and the row is a distribution.
Cut CutOf(const VocabularyRow& row, const Chunks& chunks, int64_t vocab_size,
          const Filters& filters, const VocabularyKernelTable& kernels);

}  // namespace flashinfer::cpu
