// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax as the dispatcher sees them: problems, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/candidate.h"
#include "ops/vocabulary.h"

namespace flashinfer {

struct SoftmaxParams {
  VocabularyRows logits;
  float* probs;
  int64_t probs_stride;
  RowValues<float> temperature;
  Stream stream;
};

/// Where each row's token goes, and whether the row was a distribution (null: not wanted).
struct TokenOutputs {
  int32_t* tokens;
  int64_t tokens_stride;
  bool* valid;
  int64_t valid_stride;
};

struct ArgMaxParams {
  VocabularyRows logits;
  TokenOutputs out;
  Stream stream;
};

struct SamplingParams {
  VocabularyRows rows;
  RowIndices indices;
  int64_t num_outputs;
  TokenOutputs out;
  RowValues<float> temperature;
  RowValues<int32_t> top_k;
  RowValues<float> top_p;
  RowValues<float> min_p;
  RowValues<int64_t> seed;
  RowValues<int64_t> offset;
  FilterOrder filter_order;
  Stream stream;
};

struct SoftmaxOp {
  static constexpr std::string_view kName = "softmax";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const SoftmaxParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

struct SamplingOp {
  static constexpr std::string_view kName = "sampling";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const SamplingParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

struct ArgMaxOp {
  static constexpr std::string_view kName = "argmax";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const ArgMaxParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
