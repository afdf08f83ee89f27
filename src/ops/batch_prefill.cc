// SPDX-License-Identifier: Apache-2.0
// Batch prefill: check, choose and plan; then run.
#include "ops/batch_prefill.h"

#include "backends/cpu/attention.h"
#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"
#include "flashinfer/attention/prefill.h"

namespace flashinfer {
namespace {

AttentionProblem ToAttention(const BatchPrefillProblem& p) {
  return {.dtype_q = p.dtype_q,
          .dtype_kv = p.dtype_kv,
          .dtype_out = p.dtype_out,
          .num_qo_heads = p.num_qo_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim_qk = p.head_dim_qk,
          .head_dim_vo = p.head_dim_vo,
          .page_size = p.page_size,
          .causal = p.causal,
          .sm_scale = p.sm_scale,
          .logits_soft_cap = p.logits_soft_cap,
          .window_left = p.window_left,
          .fixed_split_size = p.fixed_split_size};
}

}  // namespace

struct BatchPrefill::Impl {
  explicit Impl(Workspace& w) : workspace(w) {}
  Workspace& workspace;
  AttentionProblem problem;
  AttentionLengths lengths;
  AttentionFactory factory = nullptr;
  std::unique_ptr<AttentionExecutor> executor;
};

BatchPrefill::BatchPrefill(Workspace& workspace) : impl_(std::make_unique<Impl>(workspace)) {}
BatchPrefill::BatchPrefill(BatchPrefill&&) noexcept = default;
BatchPrefill& BatchPrefill::operator=(BatchPrefill&&) noexcept = default;
BatchPrefill::~BatchPrefill() = default;

size_t BatchPrefill::WorkspaceBytes(const BatchPrefillProblem& problem, int64_t,
                                    int64_t max_tokens) {
  const AttentionProblem p = ToAttention(problem);
  CheckAttentionProblem(p);
  return cpu::AttentionWorkspaceBytes(p, max_tokens);
}

void BatchPrefill::Plan(const BatchPrefillProblem& problem, const TensorView& qo_indptr,
                        const PageTable& pages, Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("batch_prefill.plan", {{"object", ObjectText(impl_.get())},
                                   {"problem", FieldsText("batch_prefill", ToAttention(problem))},
                                   {"qo_indptr", qo_indptr},
                                   {"indptr", pages.indptr},
                                   {"indices", pages.indices},
                                   {"last_page_len", pages.last_page_len}});
  }
  Impl& impl = *impl_;
  const AttentionProblem p = ToAttention(problem);
  CheckAttentionProblem(p);
  const AttentionFactory factory = Choose<BatchPrefillOp>(p, backend);
  AttentionLengths lengths = std::move(impl.lengths);
  try {
    ReadPageTable(pages, p.page_size, lengths);
    ReadQueryLengths(qo_indptr, lengths);
    if (impl.executor == nullptr || impl.factory != factory) {
      impl.executor = factory();
      impl.factory = factory;
    }
    impl.executor->Plan(p, lengths, impl.workspace);
  } catch (...) {
    impl.executor.reset();  // half a plan must not run
    throw;
  }
  impl.problem = p;
  impl.lengths = std::move(lengths);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("batch_prefill.plan", {});
}

void BatchPrefill::Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
                       const TensorView& lse, Stream) const {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("batch_prefill.run", {{"object", ObjectText(impl_.get())},
                                  {"q", q},
                                  {"cache.k", cache.k},
                                  {"cache.v", cache.v},
                                  {"cache.layout", std::string(Name(cache.layout))},
                                  {"out", out},
                                  {"lse", lse}});
  }
  const Impl& impl = *impl_;
  FLASHINFER_CHECK(impl.executor != nullptr, "Run() was called before a successful Plan()");
  const AttentionTensors tensors{q, cache, out, lse};
  CheckAttentionTensors(impl.problem, impl.lengths, tensors);
  impl.executor->Run(tensors);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("batch_prefill.run", {{"out", out}, {"lse", lse}});
}

Explanation Explain(const BatchPrefillProblem& problem) {
  return ExplainOp<BatchPrefillOp>(ToAttention(problem), EffectiveBackend(Backend()));
}

}  // namespace flashinfer
