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
#include "support/device.h"

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
  DeviceCopies on(workspace.device());
  AttentionProblem problem = c.problem;
  problem.arch = cuda::ArchOf(workspace.device());
  PageTable pages = in.pages();
  pages.indices = on(pages.indices);
  on(in.k_pool);
  on(in.v_pool);
  const PagedKvCache cache = in.cache();
  for (const HostTensor* tensor :
       {&in.q_scales, &in.k_scales, &in.v_scales, &in.sinks, &in.slopes, &in.bias}) {
    on(*tensor);
  }
  AttentionExtras extras = in.extras();
  for (TensorView* view : {&extras.q_scales, &extras.k_scales, &extras.v_scales, &extras.sinks,
                           &extras.alibi_slopes, &extras.bias}) {
    *view = on(*view);
  }
  BatchDecode decode(workspace);
  decode.Plan(problem, pages, Backend(backend));
  decode.Run(on(in.q), {on(cache.k), on(cache.v), cache.layout}, on(in.out), on(in.lse), extras);
  on.Fetch();
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
