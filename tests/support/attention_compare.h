// SPDX-License-Identifier: Apache-2.0
// What decode's and prefill's tests check of every case.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/attention_oracle.h"
#include "support/candidates.h"
#include "support/compare.h"

namespace flashinfer::test {

inline std::string CaseText(const std::string& candidate, const AttentionCase& c) {
  std::string text = FieldsText(candidate, c.problem) + " layout=" + std::string(Name(c.layout));
  for (size_t b = 0; b < c.q_len.size(); ++b) {
    text += fmt::format(" {}x{}", c.q_len[b], c.kv_len[b]);
  }
  return text;
}

/// out and lse against the oracle.
inline void ExpectMatches(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResult& expected) {
  EXPECT_TRUE(AllNear(in.out, expected.out, ToleranceOf(c.problem.dtype_out, 512)));
  EXPECT_TRUE(AllNear(in.lse, expected.lse, LseTolerance()));
}

}  // namespace flashinfer::test
