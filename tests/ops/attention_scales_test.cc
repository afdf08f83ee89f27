// SPDX-License-Identifier: Apache-2.0
// Scales of quantised caches: they count, and may change from run to run.
#include <gtest/gtest.h>

#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

struct Scales {
  float k;
  float v;
};

TEST(AttentionScales, ApplyToEveryFormAndChangeFromRunToRun) {
  for (DType kv : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
    for (DType q : {DType::kBF16, DType::kF16}) {
      for (bool is_ragged : {false, true}) {
        AttentionCase c{AttentionOf(q, kv, q, 16, 4, 128, 128, 1), {40}, {64}};
        c.is_ragged = is_ragged;
        AttentionInputs in(c, 81);
        Workspace workspace;
        BatchPrefill paged(workspace);
        BatchPrefillRagged ragged(workspace);
        if (is_ragged) {
          ragged.Plan(c.problem, in.qo_indptr_view(), in.kv_indptr_view());
        } else {
          paged.Plan(c.problem, in.qo_indptr_view(), in.pages());
        }
        const float unit = kv == DType::kI8 ? 1.0f / 32 : 1.0f;
        for (const Scales& s : {Scales{0.25f, 0.5f}, {1, 1}, {2, 1}}) {
          in.k_scale = s.k * unit;
          in.v_scale = s.v * unit;
          if (is_ragged) {
            ragged.Run(in.q, in.ragged(), in.out, in.lse, in.extras());
          } else {
            paged.Run(in.q, in.cache(), in.out, in.lse, in.extras());
          }
          ExpectMatches(c, in, AttentionOracle(c, in));
        }
      }
    }
  }
}

TEST(AttentionScales, TwiceTheValueScaleIsTwiceTheOutput) {
  const AttentionCase c{
      AttentionOf(DType::kF32, DType::kE4M3, DType::kF32, 8, 2, 64, 64, 16), {1, 1}, {100, 7}};
  for (const std::string& candidate : AcceptingCandidates<BatchDecodeOp>(c.problem)) {
    AttentionInputs in(c, 82);
    Workspace workspace;
    RunDecode(c, in, workspace, candidate);
    const std::vector<double> once = in.out.Values();
    in.v_scale *= 2;
    RunDecode(c, in, workspace, candidate);
    const std::vector<double> twice = in.out.Values();
    for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]) << candidate;
  }
}

TEST(AttentionScales, UnequalHeadDims) {
  for (DType kv : {DType::kE4M3, DType::kE5M2}) {
    for (MaskMode mask : {MaskMode::kNone, MaskMode::kCausal}) {
      AttentionCase c{
          AttentionOf(DType::kBF16, kv, DType::kBF16, 16, 16, 192, 128, 16), {99}, {99}};
      c.problem.mask = mask;
      const AttentionInputs in(c, 83);
      Workspace workspace;
      RunPrefill(c, in, workspace);
      ExpectMatches(c, in, AttentionOracle(c, in));
    }
  }
}

}  // namespace
}  // namespace flashinfer::test
