// SPDX-License-Identifier: Apache-2.0
// Batch prefill: attention of several tokens a request, over pages or over keys in a row.
#include "ops/batch_prefill.h"

#include "core/check.h"
#include "dispatch/choose.h"
#include "flashinfer/attention/prefill.h"
#include "ops/planned_attention.h"

namespace flashinfer {
namespace {

AttentionProblem WithoutPages(AttentionProblem p) {
  p.page_size = kNoPages;
  return p;
}

}  // namespace

struct BatchPrefill::Impl : PlannedAttention {
  using PlannedAttention::PlannedAttention;
};

BatchPrefill::BatchPrefill(Workspace& workspace)
    : impl_(std::make_unique<Impl>("batch_prefill", Choose<BatchPrefillOp>, workspace)) {}
BatchPrefill::BatchPrefill(BatchPrefill&&) noexcept = default;
BatchPrefill& BatchPrefill::operator=(BatchPrefill&&) noexcept = default;
BatchPrefill::~BatchPrefill() = default;

size_t BatchPrefill::WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                                    int64_t max_tokens, Backend backend) {
  return PlannedAttention::WorkspaceBytes(Choose<BatchPrefillOp>, problem, max_requests, max_tokens,
                                          backend);
}

Explanation BatchPrefill::Explain(const AttentionProblem& problem) {
  return ExplainOp<BatchPrefillOp>(problem, EffectiveBackend(Backend()));
}

void BatchPrefill::Plan(const AttentionProblem& problem, const TensorView& qo_indptr,
                        const PageTable& pages, const AttentionMask& mask, Backend backend,
                        Stream stream) {
  FLASHINFER_CHECK(problem.page_size > 0, "page_size: is {}, expected 1 or more",
                   problem.page_size);
  CheckTensor("qo_indptr", qo_indptr);
  impl_->Plan(problem, {.qo_indptr = qo_indptr, .pages = pages, .mask = mask}, backend, stream);
}

void BatchPrefill::PlanOnDevice(const AttentionProblem& problem, const TensorView& qo_indptr,
                                const PageTable& pages, int64_t max_tokens, Backend backend,
                                Stream stream) {
  CheckTensor("qo_indptr", qo_indptr);
  impl_->PlanOnDevice(problem, {.qo_indptr = qo_indptr, .pages = pages}, {.tokens = max_tokens},
                      backend, stream);
}

void BatchPrefill::Replan(Stream stream) const { impl_->Replan(stream); }

void BatchPrefill::Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
                       const TensorView& lse, const AttentionExtras& extras, Stream stream) const {
  impl_->Run({q, cache, out, lse, extras}, stream);
}

struct BatchPrefillRagged::Impl : PlannedAttention {
  using PlannedAttention::PlannedAttention;
};

BatchPrefillRagged::BatchPrefillRagged(Workspace& workspace)
    : impl_(std::make_unique<Impl>("batch_prefill_ragged", Choose<BatchPrefillOp>, workspace)) {}
BatchPrefillRagged::BatchPrefillRagged(BatchPrefillRagged&&) noexcept = default;
BatchPrefillRagged& BatchPrefillRagged::operator=(BatchPrefillRagged&&) noexcept = default;
BatchPrefillRagged::~BatchPrefillRagged() = default;

size_t BatchPrefillRagged::WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                                          int64_t max_tokens, Backend backend) {
  return PlannedAttention::WorkspaceBytes(Choose<BatchPrefillOp>, WithoutPages(problem),
                                          max_requests, max_tokens, backend);
}

Explanation BatchPrefillRagged::Explain(const AttentionProblem& problem) {
  return ExplainOp<BatchPrefillOp>(WithoutPages(problem), EffectiveBackend(Backend()));
}

void BatchPrefillRagged::Plan(const AttentionProblem& problem, const TensorView& qo_indptr,
                              const TensorView& kv_indptr, const AttentionMask& mask,
                              Backend backend, Stream stream) {
  CheckTensor("qo_indptr", qo_indptr);
  impl_->Plan(WithoutPages(problem), {.qo_indptr = qo_indptr, .kv_indptr = kv_indptr, .mask = mask},
              backend, stream);
}

void BatchPrefillRagged::PlanOnDevice(const AttentionProblem& problem, const TensorView& qo_indptr,
                                      const TensorView& kv_indptr, int64_t max_tokens,
                                      int64_t max_keys, Backend backend, Stream stream) {
  CheckTensor("qo_indptr", qo_indptr);
  CheckTensor("kv_indptr", kv_indptr);
  impl_->PlanOnDevice(WithoutPages(problem), {.qo_indptr = qo_indptr, .kv_indptr = kv_indptr},
                      {.tokens = max_tokens, .keys = max_keys}, backend, stream);
}

void BatchPrefillRagged::Replan(Stream stream) const { impl_->Replan(stream); }

void BatchPrefillRagged::Run(const TensorView& q, const RaggedKv& kv, const TensorView& out,
                             const TensorView& lse, const AttentionExtras& extras,
                             Stream stream) const {
  impl_->Run({q, AsOnePage(kv), out, lse, extras}, stream);
}

}  // namespace flashinfer
