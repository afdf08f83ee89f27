// SPDX-License-Identifier: Apache-2.0
// What tests check of attention cases.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "support/candidates.h"
#include "support/checks/attention.h"
#include "support/compare.h"

namespace flashinfer::test {

/// How googletest shows a parameter.
inline void PrintTo(const AttentionCase& c, std::ostream* stream) {
  *stream << CaseText("attention", c);
}

/// out and lse against the oracle.
inline void ExpectMatches(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResult& expected) {
  EXPECT_TRUE(AllNear(in.out, expected.out, AttentionTolerance(c)));
  EXPECT_TRUE(AllNear(in.lse, expected.lse, AttentionLseTolerance(c)));
}

}  // namespace flashinfer::test
