// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/candidate.h"
#include "ops/vocabulary.h"

namespace flashinfer {

/// Probabilities by row and position; strides count elements.
struct ProbsByPosition {
  const float* data;
  int64_t row_stride;
  int64_t position_stride;
  const float* At(int64_t row, int64_t position) const {
    return data + row * row_stride + position * position_stride;
  }
};

/// Counts that are added to; null: not wanted.
struct RowCounts {
  int32_t* data = nullptr;
  int64_t stride = 0;
  void Add(int64_t row, int64_t count) const {
    if (data != nullptr) data[row * stride] += static_cast<int32_t>(count);
  }
};

struct ChainSpeculativeParams {
  ProbsByPosition draft;   // [num_rows, num_drafts, vocab_size]
  ProbsByPosition target;  // [num_rows, num_drafts + 1, vocab_size]
  const int32_t* draft_tokens;
  int64_t draft_tokens_row_stride;
  int64_t draft_tokens_stride;
  int32_t* tokens;
  int64_t tokens_row_stride;
  int64_t tokens_stride;
  RowCounts num_accepted;
  RowCounts num_emitted;
  RowValues<int64_t> seed;
  RowValues<int64_t> offset;
  int64_t num_rows;
  int64_t num_drafts;
  int64_t vocab_size;
  Stream stream;
};

struct ChainSpeculativeOp {
  static constexpr std::string_view kName = "chain_speculative";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const ChainSpeculativeParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
