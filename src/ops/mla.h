// SPDX-License-Identifier: Apache-2.0
// Latent attention as the dispatcher sees it, and the executor that backends write.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/attention/mla.h"
#include "ops/attention.h"

namespace flashinfer {

template <FieldsOf<MlaProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_heads)
  FLASHINFER_NAMED(head_dim_ckv)
  FLASHINFER_NAMED(head_dim_kpe)
  FLASHINFER_NAMED(page_size)
  FLASHINFER_NAMED(causal)
  FLASHINFER_NAMED(window_left)
  FLASHINFER_NAMED(sm_scale)
  FLASHINFER_NAMED(logits_soft_cap)
  FLASHINFER_NAMED(fixed_split_size)
  FLASHINFER_NAMED(arch)
}

/// One Run(); `q_pe` and `cache.kpe` may be undefined without a part with positions, `lse` always.
struct MlaTensors {
  const TensorView& q_nope;
  const TensorView& q_pe;
  const MlaCache& cache;
  const TensorView& out;
  const TensorView& lse;
};

/// A backend's planned latent attention.
class MlaExecutor {
 public:
  virtual ~MlaExecutor() = default;
  /// `tables` may go afterwards.
  virtual void Plan(const MlaProblem& problem, const AttentionTables& tables, Workspace& workspace,
                    Stream stream) = 0;
  virtual void Run(const MlaTensors& tensors, Stream stream) const = 0;
  /// A plan that Replan() makes on the device; of `tables` it reads nothing but sizes, and where
  /// pages and tensors are.
  virtual void PlanOnDevice(const MlaProblem& problem, const AttentionTables& tables,
                            const DeviceLengths& lengths, Workspace& workspace, Stream stream);
  virtual void Replan(Stream) const {}
};

/// A candidate's entry.
struct MlaEntry {
  std::unique_ptr<MlaExecutor> (*make)();
  /// Workspace of a plan for up to so many requests, of so many query tokens together.
  size_t (*workspace_bytes)(const MlaProblem& problem, int64_t max_requests, int64_t max_tokens);
};

struct MlaOp {
  static constexpr std::string_view kName = "batch_mla";
  using Problem = MlaProblem;
  using Entry = MlaEntry;
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
