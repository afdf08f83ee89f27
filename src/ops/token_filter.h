// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking rows of a vocabulary, as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/candidate.h"
#include "ops/vocabulary.h"

namespace flashinfer {

struct TokenFilterParams {
  VocabularyRows rows;  ///< logits are masked, probabilities renormalised
  void* out;            ///< of the dtype of rows
  int64_t out_stride;
  RowValues<int32_t> top_k;
  RowValues<float> top_p;
  Stream stream;
};

struct TokenFilterOp {
  static constexpr std::string_view kName = "token_filter";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const TokenFilterParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
