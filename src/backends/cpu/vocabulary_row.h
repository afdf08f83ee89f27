// SPDX-License-Identifier: Apache-2.0
// One row of a vocabulary on the CPU: chunks over threads, extremes, filters, kept mass.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/sampling.h"
#include "backends/cpu/thread_pool.h"
#include "flashinfer/cpu.h"

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

/// Calls `body(row)` for each row; over threads when rows are short or every thread gets as many of
/// them, or nearly; else rows one after another so that each shares its chunks.
template <class Body>
void ForEachRow(int64_t num_rows, int64_t vocab_size, Body&& body) {
  constexpr int64_t kManyRowsPerThread = 8;
  constexpr int64_t kElementsPerGrain = 16384;
  const int64_t num_threads = NumThreads();
  const bool is_even = num_rows % num_threads == 0 || num_rows >= kManyRowsPerThread * num_threads;
  if (!is_even && Chunks(vocab_size).count() > 1) {
    for (int64_t row = 0; row < num_rows; ++row) body(row);
    return;
  }
  const int64_t grain = kElementsPerGrain / vocab_size;
  ParallelFor(num_rows, grain < 1 ? 1 : grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

/// Row `index` as the kernels take it; `max` is filled by the caller.
VocabularyRow RowOf(const VocabularyRows& rows, int64_t index, float temperature);

/// Of a whole row. `maxima`, unless it is null, takes those of its groups.
Extremes ExtremesOf(const VocabularyRow& row, const Chunks& chunks,
                    const VocabularyKernelTable& kernels, float* maxima = nullptr);

/// Whether softmax or the row itself gives a distribution; no NaN, no infinite weight, some weight.
bool IsDistribution(const VocabularyRow& row, const Extremes& extremes);

/// How much of a cut each chunk keeps: ties are kept in vocabulary order, so first chunks take
/// them.
struct KeptParts {
  std::array<double, Chunks::kMaxChunks> weight{};
  std::array<int64_t, Chunks::kMaxChunks> num_ties{};
  double total = 0;
};
KeptParts KeptOf(const VocabularyRow& row, const Chunks& chunks, const Cut& cut,
                 const VocabularyKernelTable& kernels);

/// Weight of all its tokens.
double MassOf(const VocabularyRow& row, const Chunks& chunks, const VocabularyKernelTable& kernels);

/// The token at which the cumulative weight of the kept ones, in vocabulary order, reaches
/// `uniform` of their whole weight.
int64_t DrawToken(const VocabularyRow& row, const Chunks& chunks, const Cut& cut, double uniform,
                  const VocabularyKernelTable& kernels);

/// Whether `a` keeps less of a row than `b`.
inline bool IsShorter(const Cut& a, const Cut& b) {
  return a.value > b.value || (a.value == b.value && a.num_ties < b.num_ties);
}

struct Filters {
  double top_p;     ///< 1: off
  double min_p;     ///< 0: off
  double mass = 0;  ///< that top_p is a share of; 0: of the row
};

/// The cut that keeps what both filters keep: each keeps a prefix of the tokens in their order, so
/// it is the shorter of the prefixes. `row.max` is set and the row is a distribution.
Cut CutOf(const VocabularyRow& row, const Chunks& chunks, int64_t vocab_size,
          const Filters& filters, const VocabularyKernelTable& kernels);

}  // namespace flashinfer::cpu
