// SPDX-License-Identifier: Apache-2.0
// Comparisons as assertions of googletest.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/case_run.h"
#include "support/mismatch.h"

namespace flashinfer::test {

/// Every element near the expected value (row-major order), and nothing written in between.
inline ::testing::AssertionResult AllNear(const HostTensor& actual,
                                          const std::vector<double>& expected,
                                          Tolerance tolerance) {
  const std::string mismatch = Mismatch(actual, expected, tolerance);
  if (mismatch.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\n" << mismatch;
}

/// Runs a shared case on every candidate that this machine has.
template <class Case>
void ExpectCaseHolds(void (*check)(const Case&, CaseRun&), const Case& c) {
  CaseRun run;
  check(c, run);
  EXPECT_THAT(run.failures(), ::testing::IsEmpty());
}

}  // namespace flashinfer::test
