// SPDX-License-Identifier: Apache-2.0
// Batch decode as the dispatcher sees it.
#pragma once

#include <span>

#include "ops/attention.h"

namespace flashinfer {

struct BatchDecodeOp {
  static constexpr std::string_view kName = "batch_decode";
  using Problem = AttentionProblem;
  using Entry = AttentionEntry;
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
