// SPDX-License-Identifier: Apache-2.0
// Top-k selection as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/candidate.h"
#include "flashinfer/topk.h"
#include "ops/vocabulary.h"

namespace flashinfer {

struct TopKParams {
  VocabularyRows rows;
  int64_t k;
  void* values;  ///< of the dtype of rows; null: not wanted
  int64_t values_stride;
  void* indices;
  int64_t indices_stride;
  bool indices_are_64_bit;
  bool sorted;
  TieBreak tie_break;
};

struct TopKOp {
  static constexpr std::string_view kName = "topk";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const TopKParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
