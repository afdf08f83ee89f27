// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/attention/mla.h for other languages.
#include "flashinfer/attention/mla.h"

#include <tvm/ffi/object.h>

#include <array>
#include <utility>

#include "bindings/tvm_ffi/attention_record.h"
#include "bindings/tvm_ffi/borrowed_workspace.h"
#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::Bytes;

class MlaPlanObject : public tvm::ffi::Object {
 public:
  explicit MlaPlanObject(Device device) : workspace_(device), attention_(workspace_) {}

  void Plan(const Bytes& record, const TensorView& block, TensorView qo_indptr,
            MlaPageTable pages) {
    if (block.defined()) workspace_ = BorrowedWorkspace(block);
    const std::array on_host{&qo_indptr, &pages.indptr, &pages.kv_len};
    FetchTables(copies_, on_host);
    attention_.Plan(ReadMlaProblem(record), qo_indptr, pages, Backend(), StreamOf(pages.indices));
  }

  void PlanOnDevice(const Bytes& record, const TensorView& block, const TensorView& qo_indptr,
                    const MlaPageTable& pages, int64_t max_tokens) {
    if (block.defined()) workspace_ = BorrowedWorkspace(block);
    attention_.PlanOnDevice(ReadMlaProblem(record), qo_indptr, pages, max_tokens, Backend(),
                            StreamOf(pages.indices));
  }

  void ReplanOnDevice() const {
    attention_.Replan(
        StreamOf(TensorView(static_cast<void*>(nullptr), DType::kU8, {0}, workspace_.device())));
  }

  const BatchMla& attention() const { return attention_; }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("flashinfer.MlaPlan", MlaPlanObject, tvm::ffi::Object);

 private:
  Workspace workspace_;
  HostCopies copies_;
  BatchMla attention_;
};

class MlaPlan : public tvm::ffi::ObjectRef {
 public:
  explicit MlaPlan(tvm::ffi::ObjectPtr<MlaPlanObject> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(MlaPlan, tvm::ffi::ObjectRef, MlaPlanObject);
};

MlaPlan Make(int64_t device_type, int64_t index) {
  const Device device =
      device_type == kDLCPU ? Device() : Device{DeviceType::kCuda, static_cast<int32_t>(index)};
  return MlaPlan(tvm::ffi::make_object<MlaPlanObject>(device));
}

void Plan(const MlaPlan& plan, const Bytes& record, const TensorView& workspace,
          const TensorView& qo_indptr, const TensorView& indptr, const TensorView& indices,
          const TensorView& kv_len) {
  plan->Plan(record, workspace, qo_indptr, {indptr, indices, kv_len});
}

/// All tables on the device.
void PlanOnDevice(const MlaPlan& plan, const Bytes& record, const TensorView& workspace,
                  const TensorView& qo_indptr, const TensorView& indptr, const TensorView& indices,
                  const TensorView& kv_len, int64_t max_tokens) {
  plan->PlanOnDevice(record, workspace, qo_indptr, {indptr, indices, kv_len}, max_tokens);
}

void ReplanOnDevice(const MlaPlan& plan) { plan->ReplanOnDevice(); }

void Run(const MlaPlan& plan, const TensorView& q_nope, const TensorView& q_pe,
         const TensorView& ckv, const TensorView& kpe, const TensorView& out, const TensorView& lse,
         double ckv_scale, double kpe_scale) {
  MlaCache cache{.ckv = ckv, .kpe = kpe};
  cache.ckv_scale = static_cast<float>(ckv_scale);
  cache.kpe_scale = static_cast<float>(kpe_scale);
  plan->attention().Run(q_nope, q_pe, cache, out, lse, StreamOf(q_nope));
}

/// With a scale for each block of each latent.
void RunScaled(const MlaPlan& plan, const TensorView& q_nope, const TensorView& q_pe,
               const TensorView& ckv, const TensorView& kpe, const TensorView& out,
               const TensorView& lse, const TensorView& ckv_scales, double kpe_scale) {
  MlaCache cache{.ckv = ckv, .kpe = kpe};
  cache.kpe_scale = static_cast<float>(kpe_scale);
  cache.ckv_scales = ckv_scales;
  plan->attention().Run(q_nope, q_pe, cache, out, lse, StreamOf(q_nope));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(mla_plan_make, flashinfer::bindings::Make)
FLASHINFER_EXPORT(mla_plan, flashinfer::bindings::Plan)
FLASHINFER_EXPORT(mla_plan_on_device, flashinfer::bindings::PlanOnDevice)
FLASHINFER_EXPORT(mla_replan_on_device, flashinfer::bindings::ReplanOnDevice)
FLASHINFER_EXPORT(mla_run, flashinfer::bindings::Run)
FLASHINFER_EXPORT(mla_run_scaled, flashinfer::bindings::RunScaled)
