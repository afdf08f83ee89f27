// SPDX-License-Identifier: Apache-2.0
// Running a test over every candidate that takes its problem.
#pragma once

#include <string>
#include <vector>

#include "dispatch/choose.h"

namespace flashinfer::test {

/// Names of the candidates of `Op` that run `problem` on this machine, fastest first.
template <class Op>
std::vector<std::string> AcceptingCandidates(const typename Op::Problem& problem) {
  std::vector<std::string> names;
  for (const Verdict& verdict : ExplainOp<Op>(problem).verdicts) {
    if (verdict.accepted) names.push_back(verdict.candidate);
  }
  return names;
}

}  // namespace flashinfer::test
