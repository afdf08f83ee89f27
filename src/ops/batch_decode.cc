// SPDX-License-Identifier: Apache-2.0
// Batch decode: attention of one token a request over pages.
#include "ops/batch_decode.h"

#include "core/check.h"
#include "dispatch/choose.h"
#include "flashinfer/attention/decode.h"
#include "ops/planned_attention.h"

namespace flashinfer {
namespace {

/// The only token is the last one: it sees every key under a causal mask.
AttentionProblem ToDecode(AttentionProblem p) {
  FLASHINFER_CHECK(p.mask == MaskMode::kNone || p.mask == MaskMode::kCausal,
                   "mask: is {}, decode takes none and causal", Name(p.mask));
  p.mask = MaskMode::kNone;
  return p;
}

}  // namespace

struct BatchDecode::Impl : PlannedAttention {
  using PlannedAttention::PlannedAttention;
};

BatchDecode::BatchDecode(Workspace& workspace)
    : impl_(std::make_unique<Impl>("batch_decode", Choose<BatchDecodeOp>, workspace)) {}
BatchDecode::BatchDecode(BatchDecode&&) noexcept = default;
BatchDecode& BatchDecode::operator=(BatchDecode&&) noexcept = default;
BatchDecode::~BatchDecode() = default;

size_t BatchDecode::WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                                   Backend backend) {
  return PlannedAttention::WorkspaceBytes(Choose<BatchDecodeOp>, ToDecode(problem), max_requests,
                                          max_requests, backend);
}

Explanation BatchDecode::Explain(const AttentionProblem& problem) {
  return ExplainOp<BatchDecodeOp>(ToDecode(problem), EffectiveBackend(Backend()));
}

void BatchDecode::Plan(const AttentionProblem& problem, const PageTable& pages, Backend backend,
                       Stream stream) {
  FLASHINFER_CHECK(problem.page_size > 0, "page_size: is {}, expected 1 or more",
                   problem.page_size);
  impl_->Plan(ToDecode(problem), {.pages = pages}, backend, stream);
}

void BatchDecode::PlanOnDevice(const AttentionProblem& problem, const PageTable& pages,
                               Backend backend, Stream stream) {
  impl_->PlanOnDevice(ToDecode(problem), {.pages = pages}, {}, backend, stream);
}

void BatchDecode::Replan(Stream stream) const { impl_->Replan(stream); }

void BatchDecode::Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
                      const TensorView& lse, const AttentionExtras& extras, Stream stream) const {
  impl_->Run({q, cache, out, lse, extras}, stream);
}

}  // namespace flashinfer
