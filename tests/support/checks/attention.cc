// SPDX-License-Identifier: Apache-2.0
// Batch decode and prefill over cases.
#include "support/checks/attention.h"

#include "core/fields.h"
#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "support/mismatch.h"

namespace flashinfer::test {

std::string CaseText(std::string_view op, const AttentionCase& c) {
  std::string text = FieldsText(op, c.problem) + " layout=" + std::string(Name(c.layout));
  for (size_t b = 0; b < c.q_len.size(); ++b) {
    text += fmt::format("{}{}x{}", b == 0 ? " requests=" : ",", c.q_len[b], c.kv_len[b]);
  }
  return text;
}

AttentionExtras ExtrasOn(DeviceCopies& on, const AttentionInputs& in) {
  for (const HostTensor* tensor :
       {&in.q_scales, &in.k_scales, &in.v_scales, &in.sinks, &in.slopes, &in.bias}) {
    on(*tensor);
  }
  AttentionExtras extras = in.extras();
  for (TensorView* view : {&extras.q_scales, &extras.k_scales, &extras.v_scales, &extras.sinks,
                           &extras.alibi_slopes, &extras.bias}) {
    *view = on(*view);
  }
  return extras;
}

void RunDecode(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
               std::string_view backend) {
  DeviceCopies on(workspace.device());
  PageTable pages = in.pages();
  pages.indices = on(pages.indices);
  on(in.k_pool);
  on(in.v_pool);
  const PagedKvCache cache = in.cache();
  const AttentionExtras extras = ExtrasOn(on, in);
  BatchDecode decode(workspace);
  decode.Plan(c.problem, pages, Backend(backend));
  decode.Run(on(in.q), {on(cache.k), on(cache.v), cache.layout}, on(in.out), on(in.lse), extras);
  on.Fetch();
}

void RunPrefill(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
                std::string_view backend) {
  DeviceCopies on(workspace.device());
  on(in.k_pool);
  on(in.v_pool);
  AttentionMask mask = in.mask();
  mask.custom = on(mask.custom);
  mask.token_pos_in_items = on(mask.token_pos_in_items);
  const AttentionExtras extras = ExtrasOn(on, in);
  if (c.is_ragged) {
    BatchPrefillRagged prefill(workspace);
    const RaggedKv kv = in.ragged();
    prefill.Plan(c.problem, in.qo_indptr_view(), in.kv_indptr_view(), mask, Backend(backend));
    prefill.Run(on(in.q), {on(kv.k), on(kv.v), kv.layout}, on(in.out), on(in.lse), extras);
  } else {
    BatchPrefill prefill(workspace);
    PageTable pages = in.pages();
    pages.indices = on(pages.indices);
    const PagedKvCache cache = in.cache();
    prefill.Plan(c.problem, in.qo_indptr_view(), pages, mask, Backend(backend));
    prefill.Run(on(in.q), {on(cache.k), on(cache.v), cache.layout}, on(in.out), on(in.lse), extras);
  }
  on.Fetch();
}

/// What was rotated may be rounded to the 16-bit type of the queries.
bool RoundsRotated(const AttentionProblem& p) {
  return p.pos_encoding == PositionEncoding::kRopeLlama && SizeBytes(p.dtype_q) == 2;
}

Tolerance AttentionTolerance(const AttentionCase& c) {
  const AttentionProblem& p = c.problem;
  const bool may_round = p.dtype_q == DType::kBF16 && p.dtype_kv == DType::kBF16 &&
                         (p.dtype_out == DType::kF32 || p.dtype_out == DType::kF16);
  if (RoundsRotated(p) && p.dtype_out == DType::kF32) return ToleranceOf(p.dtype_q);
  return ToleranceOf(may_round ? DType::kBF16 : p.dtype_out, 512);
}

Tolerance AttentionLseTolerance(const AttentionCase& c) {
  return RoundsRotated(c.problem) ? ToleranceOf(c.problem.dtype_q) : LseTolerance();
}

namespace {

void ExpectMatches(const AttentionCase& c, const AttentionInputs& in,
                   const AttentionResult& expected, Trial& trial) {
  trial.Expect("out", Mismatch(in.out, expected.out, AttentionTolerance(c)));
  trial.Expect("lse", Mismatch(in.lse, expected.lse, AttentionLseTolerance(c)));
}

}  // namespace

void CheckBatchDecode(const AttentionCase& c, CaseRun& run) {
  AttentionResult expected;
  run.ForEachCandidate<BatchDecodeOp>(c.problem, c, [&](Trial& trial) {
    Workspace workspace(trial.device());
    const AttentionInputs in(c, 21);
    if (expected.out.empty()) expected = AttentionOracle(c, in);
    RunDecode(c, in, workspace, trial.candidate());
    ExpectMatches(c, in, expected, trial);
    // Again with the same plan limits: the same bits.
    const AttentionInputs again(c, 21);
    RunDecode(c, again, workspace, trial.candidate());
    trial.ExpectSameBytes("out again", in.out, again.out);
    trial.ExpectSameBytes("lse again", in.lse, again.lse);
  });
}

void CheckBatchPrefill(const AttentionCase& c, CaseRun& run) {
  AttentionResult expected;
  run.ForEachCandidate<BatchPrefillOp>(c.problem, c, [&](Trial& trial) {
    Workspace workspace(trial.device());
    const AttentionInputs in(c, 31);
    if (expected.lse.empty()) expected = AttentionOracle(c, in);
    RunPrefill(c, in, workspace, trial.candidate());
    ExpectMatches(c, in, expected, trial);
  });
}

}  // namespace flashinfer::test
