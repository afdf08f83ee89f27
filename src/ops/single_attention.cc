// SPDX-License-Identifier: Apache-2.0
// Attention of one request over keys in a row: plan and run in one call.
#include "core/check.h"
#include "core/fields.h"
#include "core/log.h"
#include "dispatch/choose.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "ops/planned_attention.h"

namespace flashinfer {
namespace {

int64_t NumKeys(const RaggedKv& kv) { return kv.k.shape(kv.layout == KvLayout::kNHD ? 0 : 1); }

/// `problem` with what the tensors say.
AttentionProblem WithSizesOf(AttentionProblem problem, const SingleAttentionTensors& t) {
  const int heads_dim = t.kv.layout == KvLayout::kNHD ? 1 : 0;
  CheckTensor("q", t.q).Rank(3);
  CheckTensor("k", t.kv.k).Rank(3);
  CheckTensor("v", t.kv.v).Rank(3);
  problem.dtype_q = t.q.dtype();
  problem.dtype_kv = t.kv.k.dtype();
  problem.dtype_out = t.out.dtype();
  problem.num_qo_heads = static_cast<int32_t>(t.q.shape(1));
  problem.num_kv_heads = static_cast<int32_t>(t.kv.k.shape(heads_dim));
  problem.head_dim_qk = static_cast<int32_t>(t.q.shape(2));
  problem.head_dim_vo = static_cast<int32_t>(t.kv.v.shape(2));
  problem.page_size = kNoPages;
  return problem;
}

/// `t.q` has three dimensions.
void Run(PlannedAttention::Chooser chooser, const AttentionProblem& problem,
         const SingleAttentionTensors& t, Workspace& workspace, Backend backend, Stream stream) {
  const AttentionProblem sized = WithSizesOf(problem, t);
  const int32_t qo_indptr[2] = {0, static_cast<int32_t>(t.q.shape(0))};
  const int32_t kv_indptr[2] = {0, static_cast<int32_t>(NumKeys(t.kv))};
  PlannedAttention attention("", chooser, workspace);
  attention.Plan(sized,
                 {.qo_indptr = TensorView(qo_indptr, DType::kI32, {2}),
                  .kv_indptr = TensorView(kv_indptr, DType::kI32, {2}),
                  .mask = t.mask},
                 backend, stream);
  attention.Run({t.q, AsOnePage(t.kv), t.out, t.lse, t.extras}, stream);
}

void LogSingle(std::string_view name, const AttentionProblem& problem,
               const SingleAttentionTensors& t) {
  const PagedKvCache cache{t.kv.k, t.kv.v, t.kv.layout};
  std::vector<LogArgument> arguments =
      LogArgumentsOf(AttentionTensors{t.q, cache, t.out, t.lse, t.extras});
  for (LogArgument& a : LogArgumentsOf(t.mask)) arguments.push_back(std::move(a));
  arguments.emplace_back("problem", FieldsText(name, problem));
  LogCall(name, arguments);
}

/// A view of one row, the tensor.
TensorView AsRow(std::string_view name, const TensorView& t, int rank) {
  if (!t.defined()) return t;
  CheckTensor(name, t).Rank(rank);
  Dims shape{1};
  Dims strides{0};
  for (int i = 0; i < rank; ++i) {
    shape.Append(t.shape(i));
    strides.Append(t.stride(i));
  }
  return {t.data(), t.dtype(), shape, strides, t.device()};
}

}  // namespace

void SingleDecode(const AttentionProblem& problem, const SingleAttentionTensors& tensors,
                  Workspace& workspace, Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogSingle("single_decode", problem, tensors);
  FLASHINFER_CHECK(problem.mask == MaskMode::kNone || problem.mask == MaskMode::kCausal,
                   "mask: is {}, decode takes none and causal", Name(problem.mask));
  SingleAttentionTensors rows = tensors;
  rows.q = AsRow("q", tensors.q, 2);
  rows.out = AsRow("out", tensors.out, 2);
  rows.lse = AsRow("lse", tensors.lse, 1);
  AttentionProblem unmasked = problem;
  unmasked.mask = MaskMode::kNone;
  Run(Choose<BatchDecodeOp>, unmasked, rows, workspace, backend, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("single_decode", {{"out", tensors.out}, {"lse", tensors.lse}});
}

void SinglePrefill(const AttentionProblem& problem, const SingleAttentionTensors& tensors,
                   Workspace& workspace, Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogSingle("single_prefill", problem, tensors);
  const TensorView& custom = tensors.mask.custom;
  if (custom.defined() && custom.rank() == 2) {
    CheckTensor("q", tensors.q).Rank(3);
    CheckTensor("k", tensors.kv.k).Rank(3);
    CheckTensor("mask.custom", custom)
        .Is(DType::kBool)
        .Shape({tensors.q.shape(0), NumKeys(tensors.kv)});
  }
  Run(Choose<BatchPrefillOp>, problem, tensors, workspace, backend, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("single_prefill", {{"out", tensors.out}, {"lse", tensors.lse}});
}

}  // namespace flashinfer
