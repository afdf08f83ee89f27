// SPDX-License-Identifier: Apache-2.0
// Running attention cases through the public objects, and what tests check of every case.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
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

/// How googletest shows a parameter.
inline void PrintTo(const AttentionCase& c, std::ostream* stream) {
  *stream << CaseText("attention", c);
}

inline void RunDecode(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
                      std::string_view backend = "auto") {
  BatchDecode decode(workspace);
  decode.Plan(c.problem, in.pages(), Backend(backend));
  decode.Run(in.q, in.cache(), in.out, in.lse, in.extras());
}

inline void RunPrefill(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
                       std::string_view backend = "auto") {
  if (c.is_ragged) {
    BatchPrefillRagged prefill(workspace);
    prefill.Plan(c.problem, in.qo_indptr_view(), in.kv_indptr_view(), in.mask(), Backend(backend));
    prefill.Run(in.q, in.ragged(), in.out, in.lse, in.extras());
    return;
  }
  BatchPrefill prefill(workspace);
  prefill.Plan(c.problem, in.qo_indptr_view(), in.pages(), in.mask(), Backend(backend));
  prefill.Run(in.q, in.cache(), in.out, in.lse, in.extras());
}

/// out and lse against the oracle. Where queries and keys are bf16, probabilities may be, too.
inline void ExpectMatches(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResult& expected) {
  const AttentionProblem& p = c.problem;
  const bool may_round = p.dtype_q == DType::kBF16 && p.dtype_kv == DType::kBF16 &&
                         (p.dtype_out == DType::kF32 || p.dtype_out == DType::kF16);
  const Tolerance tolerance = ToleranceOf(may_round ? DType::kBF16 : p.dtype_out, 512);
  EXPECT_TRUE(AllNear(in.out, expected.out, tolerance));
  EXPECT_TRUE(AllNear(in.lse, expected.lse, LseTolerance()));
}

}  // namespace flashinfer::test
