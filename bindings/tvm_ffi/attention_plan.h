// SPDX-License-Identifier: Apache-2.0
// The plan/run object that stands behind every wrapper class of the Python package.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/tvm_ffi/attention_variant.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/device.h"

namespace flashinfer::bindings {

/// What a plan reads. Without `qo_indptr` it is a decode, without `last_page_len` keys are not in
/// pages and `indptr` holds their rows.
struct AttentionTables {
  TensorView qo_indptr;
  TensorView indptr;
  TensorView indices;
  TensorView last_page_len;
  AttentionMask mask;
};

/// Keeps what it was planned from, for two reasons: some of what decides a plan is known at a run
/// only (whether sinks are given), and the original's forward() changes options after the plan.
/// Tensors on the device stay the caller's.
class AttentionPlanObject : public tvm::ffi::Object {
 public:
  explicit AttentionPlanObject(Device device) : workspace_(device) {}

  /// The memory for partial results: the caller's `block`, or our own that grows.
  void UseWorkspace(const TensorView& block);
  /// From the next plan on.
  void UseVariant(Variant variant) { variant_ = std::move(variant); }
  /// Begins to copy lengths that are on a device, for a Plan() with the same tables.
  void BeginPlan(AttentionTables tables);
  /// `record` is one of attention_record.h. Lengths may be on a device, which is then waited for.
  void Plan(const tvm::ffi::Bytes& record, AttentionTables tables);
  /// Of lengths that are on the device, as are all tables: for a graph that ReplanOnDevice()
  /// prepares for another batch. `max_keys` is of keys that are not in pages.
  void PlanOnDevice(const tvm::ffi::Bytes& record, const AttentionTables& tables,
                    int64_t max_tokens, int64_t max_keys);
  void ReplanOnDevice() const;
  /// The same batch under another problem.
  void Change(const tvm::ffi::Bytes& record);
  /// `v` is undefined when `k` is a cache with both planes.
  void Run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const TensorView& lse, const AttentionExtras& extras);

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("flashinfer.AttentionPlan", AttentionPlanObject,
                                    tvm::ffi::Object);

 private:
  enum class Form : uint8_t { kNone, kDecode, kPaged, kRagged };

  static Form FormOf(const AttentionTables& tables);
  void Read(const tvm::ffi::Bytes& record);
  void PlanAs(Form form, const AttentionTables& tables, Stream stream);
  void PlanOnDeviceAs(Form form, Stream stream);
  /// Plans again from what was kept.
  void Replan(Stream stream);

  Workspace workspace_;
  HostCopies copies_;
  const void* block_ = nullptr;
  int64_t block_bytes_ = 0;
  std::string backend_;
  std::optional<Variant> variant_;
  std::optional<BatchDecode> decode_;
  std::optional<BatchPrefill> paged_;
  std::optional<BatchPrefillRagged> ragged_;

  Form form_ = Form::kNone;
  std::optional<AttentionTables> on_device_;
  int64_t max_tokens_ = 0;
  int64_t max_keys_ = 0;
  AttentionProblem problem_;
  KvLayout layout_ = KvLayout::kNHD;
  std::vector<int32_t> qo_indptr_;
  std::vector<int32_t> indptr_;
  std::vector<int32_t> last_page_len_;
  std::vector<int32_t> prefix_len_;
  TensorView indices_;
  AttentionMask mask_;
};

class AttentionPlan : public tvm::ffi::ObjectRef {
 public:
  explicit AttentionPlan(tvm::ffi::ObjectPtr<AttentionPlanObject> object)
      : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(AttentionPlan, tvm::ffi::ObjectRef,
                                                AttentionPlanObject);
};

inline constexpr size_t kNumExtraTensors = 6;

/// Further inputs of a run as they cross the border: `scales` [q, k, v], `tensors` [q_scales,
/// k_scales, v_scales, sinks, alibi_slopes, bias], of which any may be None; more are not read.
AttentionExtras ExtrasOf(const tvm::ffi::Array<double>& scales,
                         const tvm::ffi::Array<tvm::ffi::Optional<tvm::ffi::Tensor>>& tensors);

}  // namespace flashinfer::bindings
