// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/attention/cascade.h for other languages.
#include "flashinfer/attention/cascade.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/object.h>

#include <utility>
#include <vector>

#include "bindings/tvm_ffi/attention_record.h"
#include "bindings/tvm_ffi/borrowed_workspace.h"
#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Tensor;

void MergeState(const TensorView& v_a, const TensorView& s_a, const TensorView& v_b,
                const TensorView& s_b, const TensorView& v_merged, const TensorView& s_merged) {
  flashinfer::MergeState(v_a, s_a, v_b, s_b, v_merged, s_merged, Backend(), StreamOf(v_a));
}

void MergeStateInPlace(const TensorView& v, const TensorView& s, const TensorView& v_other,
                       const TensorView& s_other, const TensorView& mask) {
  flashinfer::MergeStateInPlace(v, s, v_other, s_other, mask, Backend(), StreamOf(v));
}

void MergeStates(const TensorView& v, const TensorView& s, const TensorView& v_merged,
                 const TensorView& s_merged) {
  flashinfer::MergeStates(v, s, v_merged, s_merged, Backend(), StreamOf(v));
}

void VariableLengthMergeStates(const TensorView& v, const TensorView& s, const TensorView& indptr,
                               const TensorView& v_merged, const TensorView& s_merged) {
  flashinfer::VariableLengthMergeStates(v, s, indptr, v_merged, s_merged, Backend(), StreamOf(v));
}

class CascadePlanObject : public tvm::ffi::Object {
 public:
  explicit CascadePlanObject(Device device) : workspace_(device), attention_(workspace_) {}

  void Plan(const Bytes& record, const TensorView& block, const Array<Tensor>& tables) {
    if (block.defined()) workspace_ = BorrowedWorkspace(block);
    const AttentionRecord read = ReadAttentionRecord(record);
    const auto view = [&](size_t i) {
      return ViewOf(*tables[static_cast<int64_t>(i)].GetDLTensorPtr());
    };
    std::vector<CascadeLevel> levels(tables.size() / 4);
    for (size_t i = 0; i < levels.size(); ++i) {
      levels[i] = {view(4 * i), {view(4 * i + 1), view(4 * i + 2), view(4 * i + 3)}};
    }
    std::vector<TensorView*> on_host;
    on_host.reserve(3 * levels.size());
    for (CascadeLevel& level : levels) {
      on_host.push_back(&level.qo_indptr);
      on_host.push_back(&level.pages.indptr);
      on_host.push_back(&level.pages.last_page_len);
    }
    FetchTables(copies_, on_host);
    attention_.Plan(ProblemOf(read), levels, Backend(),
                    levels.empty() ? Stream() : StreamOf(levels[0].pages.indices));
    layout_ = LayoutOf(read);
  }

  void Run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const TensorView& lse) const {
    attention_.Run(q, CacheOf(k, v, layout_), out, lse, {}, StreamOf(q));
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("flashinfer.CascadePlan", CascadePlanObject, tvm::ffi::Object);

 private:
  Workspace workspace_;
  HostCopies copies_;
  MultiLevelCascadeAttention attention_;
  KvLayout layout_ = KvLayout::kNHD;
};

class CascadePlan : public tvm::ffi::ObjectRef {
 public:
  explicit CascadePlan(tvm::ffi::ObjectPtr<CascadePlanObject> object)
      : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(CascadePlan, tvm::ffi::ObjectRef,
                                                CascadePlanObject);
};

CascadePlan MakeCascade(int64_t device_type, int64_t index) {
  const Device device =
      device_type == kDLCPU ? Device() : Device{DeviceType::kCuda, static_cast<int32_t>(index)};
  return CascadePlan(tvm::ffi::make_object<CascadePlanObject>(device));
}

/// `tables`: qo_indptr, indptr, indices and last_page_len of each level.
void PlanCascade(const CascadePlan& plan, const Bytes& record, const TensorView& workspace,
                 const Array<Tensor>& tables) {
  plan->Plan(record, workspace, tables);
}

void RunCascade(const CascadePlan& plan, const TensorView& q, const TensorView& k,
                const TensorView& v, const TensorView& out, const TensorView& lse) {
  plan->Run(q, k, v, out, lse);
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(merge_state, flashinfer::bindings::MergeState)
FLASHINFER_EXPORT(merge_state_in_place, flashinfer::bindings::MergeStateInPlace)
FLASHINFER_EXPORT(merge_states, flashinfer::bindings::MergeStates)
FLASHINFER_EXPORT(variable_length_merge_states, flashinfer::bindings::VariableLengthMergeStates)
FLASHINFER_EXPORT(cascade_plan_make, flashinfer::bindings::MakeCascade)
FLASHINFER_EXPORT(cascade_plan, flashinfer::bindings::PlanCascade)
FLASHINFER_EXPORT(cascade_run, flashinfer::bindings::RunCascade)
