// SPDX-License-Identifier: Apache-2.0
// Every operator's shared cases, ready to run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/case_run.h"

namespace flashinfer::test {

/// Which cases of a list are run.
struct CaseFilter {
  std::vector<std::string> words;  ///< of a case's text, which holds all of them
  int64_t max_cases = 0;           ///< at most, spread over the list; 0: no limit

  bool Takes(std::string_view text) const;
  /// Every how many cases of `num_cases` one is run.
  int64_t Step(int64_t num_cases) const;
};

struct OpCheck {
  std::string_view op;  ///< as in text forms of its problems
  /// Runs the cases that `filter` takes; returns how many.
  int64_t (*run)(const CaseFilter& filter, CaseRun& run);
};

/// In the order of the operators' table.
std::span<const OpCheck> OpChecks();

}  // namespace flashinfer::test
