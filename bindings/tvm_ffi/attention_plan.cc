// SPDX-License-Identifier: Apache-2.0
// Batch decode, paged and ragged prefill for other languages.
#include "bindings/tvm_ffi/attention_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bindings/tvm_ffi/attention_record.h"
#include "bindings/tvm_ffi/borrowed_workspace.h"
#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;

/// Keeps integers in host memory, which a plan has checked.
void Keep(const TensorView& t, std::vector<int32_t>& copy) {
  copy.resize(t.defined() ? static_cast<size_t>(t.shape(0)) : 0);
  if (copy.empty()) return;
  const auto* const from = t.data_as<const int32_t>();
  if (t.stride(0) == 1) {
    std::copy_n(from, copy.size(), copy.begin());
    return;
  }
  for (size_t i = 0; i < copy.size(); ++i) copy[i] = from[static_cast<int64_t>(i) * t.stride(0)];
}

TensorView ViewOf(const std::vector<int32_t>& values) {
  return {values.data(), DType::kI32, {static_cast<int64_t>(values.size())}};
}

/// That of the caller's framework.
Stream CurrentStream(Device device) {
  return StreamOf(TensorView(static_cast<void*>(nullptr), DType::kU8, {0}, device));
}

}  // namespace

void AttentionPlanObject::UseWorkspace(const TensorView& block) {
  if (!block.defined()) return;
  const int64_t bytes = block.num_elements() * SizeBytes(block.dtype());
  if (block_ == block.data() && block_bytes_ == bytes) return;
  workspace_ = BorrowedWorkspace(block);
  block_ = block.data();
  block_bytes_ = bytes;
}

AttentionPlanObject::Form AttentionPlanObject::FormOf(const AttentionTables& tables) {
  if (!tables.last_page_len.defined()) return Form::kRagged;
  return tables.qo_indptr.defined() ? Form::kPaged : Form::kDecode;
}

void AttentionPlanObject::Read(const Bytes& record) {
  const AttentionRecord read = ReadAttentionRecord(record);
  const Backend backend = BackendOf(record, sizeof(AttentionRecord));
  // A wrapper whose last run had sinks or a bias will have them again.
  const bool has_sinks = problem_.has_sinks;
  const bool has_bias = problem_.has_bias;
  problem_ = ProblemOf(read);
  problem_.has_sinks = has_sinks;
  problem_.has_bias = has_bias;
  problem_.variant = variant_ ? &(*variant_)->variant() : nullptr;
  layout_ = LayoutOf(read);
  backend_ = backend.name();
}

void AttentionPlanObject::BeginPlan(AttentionTables tables) {
  const std::array on_host{&tables.qo_indptr, &tables.indptr, &tables.last_page_len};
  BeginTables(copies_, on_host);
}

void AttentionPlanObject::Plan(const Bytes& record, AttentionTables tables) {
  form_ = Form::kNone;  // half a plan must not run
  Read(record);
  const TensorView& last = tables.last_page_len;
  if (problem_.page_size == 1 && last.defined() && last.device().type == DeviceType::kCuda &&
      last.dtype() == DType::kI32 && last.rank() == 1) {  // then it has nothing to say
    last_page_len_.assign(static_cast<size_t>(last.shape(0)), 1);
    tables.last_page_len = ViewOf(last_page_len_);
  }
  const std::array on_host{&tables.qo_indptr, &tables.indptr, &tables.last_page_len,
                           &tables.mask.prefix_len};
  FetchTables(copies_, on_host);
  const Stream stream = CurrentStream(workspace_.device());
  const Form form = FormOf(tables);
  on_device_.reset();
  PlanAs(form, tables, stream);
  Keep(tables.qo_indptr, qo_indptr_);
  Keep(tables.indptr, indptr_);
  Keep(tables.last_page_len, last_page_len_);
  Keep(tables.mask.prefix_len, prefix_len_);
  indices_ = tables.indices;
  mask_ = tables.mask;
  form_ = form;
}

void AttentionPlanObject::PlanOnDevice(const Bytes& record, const AttentionTables& tables,
                                       int64_t max_tokens, int64_t max_keys) {
  const Form form = FormOf(tables);
  form_ = Form::kNone;  // half a plan must not run
  Read(record);
  on_device_ = tables;
  max_tokens_ = max_tokens;
  max_keys_ = max_keys;
  PlanOnDeviceAs(form, CurrentStream(workspace_.device()));
  form_ = form;
}

void AttentionPlanObject::PlanOnDeviceAs(Form form, Stream stream) {
  const Backend backend(backend_);
  const PageTable pages{on_device_->indptr, on_device_->indices, on_device_->last_page_len};
  if (form == Form::kDecode) {
    if (!decode_) decode_.emplace(workspace_);
    decode_->PlanOnDevice(problem_, pages, backend, stream);
  } else if (form == Form::kPaged) {
    if (!paged_) paged_.emplace(workspace_);
    paged_->PlanOnDevice(problem_, on_device_->qo_indptr, pages, max_tokens_, backend, stream);
  } else {
    if (!ragged_) ragged_.emplace(workspace_);
    ragged_->PlanOnDevice(problem_, on_device_->qo_indptr, on_device_->indptr, max_tokens_,
                          max_keys_, backend, stream);
  }
}

void AttentionPlanObject::ReplanOnDevice() const {
  const Stream stream = CurrentStream(workspace_.device());
  if (form_ == Form::kDecode) {
    decode_->Replan(stream);
  } else if (form_ == Form::kPaged) {
    paged_->Replan(stream);
  } else if (form_ == Form::kRagged) {
    ragged_->Replan(stream);
  } else {
    throw Error(ErrorKind::kInvalidArgument, "plan() failed before, and there is nothing to renew");
  }
}

void AttentionPlanObject::PlanAs(Form form, const AttentionTables& tables, Stream stream) {
  const Backend backend(backend_);
  const PageTable pages{tables.indptr, tables.indices, tables.last_page_len};
  if (form == Form::kDecode) {
    if (!decode_) decode_.emplace(workspace_);
    decode_->Plan(problem_, pages, backend, stream);
  } else if (form == Form::kPaged) {
    if (!paged_) paged_.emplace(workspace_);
    paged_->Plan(problem_, tables.qo_indptr, pages, tables.mask, backend, stream);
  } else {
    if (!ragged_) ragged_.emplace(workspace_);
    ragged_->Plan(problem_, tables.qo_indptr, tables.indptr, tables.mask, backend, stream);
  }
}

void AttentionPlanObject::Replan(Stream stream) {
  if (on_device_) {
    const Form form = std::exchange(form_, Form::kNone);
    PlanOnDeviceAs(form, stream);
    form_ = form;
    return;
  }
  AttentionTables tables{.qo_indptr = ViewOf(qo_indptr_),
                         .indptr = ViewOf(indptr_),
                         .indices = indices_,
                         .last_page_len = ViewOf(last_page_len_),
                         .mask = mask_};
  if (mask_.prefix_len.defined()) tables.mask.prefix_len = ViewOf(prefix_len_);
  const Form form = std::exchange(form_, Form::kNone);  // half a plan must not run
  PlanAs(form, tables, stream);
  form_ = form;
}

void AttentionPlanObject::Change(const Bytes& record) {
  if (form_ == Form::kNone) {
    throw Error(ErrorKind::kInvalidArgument, "forward() was called before a successful plan()");
  }
  Read(record);
  Replan(CurrentStream(workspace_.device()));
}

void AttentionPlanObject::Run(const TensorView& q, const TensorView& k, const TensorView& v,
                              const TensorView& out, const TensorView& lse,
                              const AttentionExtras& extras) {
  if (form_ == Form::kNone) {
    throw Error(ErrorKind::kInvalidArgument, "run() was called before a successful plan()");
  }
  const Stream stream = StreamOf(q);
  if (problem_.has_sinks != extras.sinks.defined() || problem_.has_bias != extras.bias.defined()) {
    problem_.has_sinks = extras.sinks.defined();
    problem_.has_bias = extras.bias.defined();
    Replan(stream);
  }
  if (form_ == Form::kDecode) {
    decode_->Run(q, CacheOf(k, v, layout_), out, lse, extras, stream);
  } else if (form_ == Form::kPaged) {
    paged_->Run(q, CacheOf(k, v, layout_), out, lse, extras, stream);
  } else {
    ragged_->Run(q, {k, v, layout_}, out, lse, extras, stream);
  }
}

AttentionExtras ExtrasOf(const Array<double>& scales, const Array<Optional<Tensor>>& tensors) {
  AttentionExtras extras;
  float* const numbers[] = {&extras.q_scale, &extras.k_scale, &extras.v_scale};
  TensorView* const views[] = {&extras.q_scales, &extras.k_scales,     &extras.v_scales,
                               &extras.sinks,    &extras.alibi_slopes, &extras.bias};
  static_assert(std::size(views) == kNumExtraTensors);
  if (scales.size() != std::size(numbers) || tensors.size() < kNumExtraTensors) {
    throw Error(ErrorKind::kInternal, "extras: expected 3 scales and 6 tensors");
  }
  for (size_t i = 0; i < std::size(numbers); ++i) {
    *numbers[i] = static_cast<float>(scales[static_cast<int64_t>(i)]);
  }
  for (size_t i = 0; i < std::size(views); ++i) {
    const Optional<Tensor> tensor = tensors[static_cast<int64_t>(i)];
    if (tensor) *views[i] = bindings::ViewOf(*(*tensor).GetDLTensorPtr());
  }
  return extras;
}

namespace {

/// `device_type` as in DLPack.
Device DeviceOf(int64_t device_type, int64_t index) {
  if (device_type == kDLCPU) return {};
  return {DeviceType::kCuda, static_cast<int32_t>(index)};
}

AttentionPlan Make(int64_t device_type, int64_t index) {
  return AttentionPlan(tvm::ffi::make_object<AttentionPlanObject>(DeviceOf(device_type, index)));
}

/// Of the tables of a Plan() that follows, those that it will read.
void BeginPlan(const AttentionPlan& plan, const TensorView& qo_indptr, const TensorView& indptr,
               const TensorView& last_page_len) {
  plan->BeginPlan({qo_indptr, indptr, {}, last_page_len, {}});
}

/// `mask` is the custom mask, or the tokens' places in their items when `prefix_len` is given.
void Plan(const AttentionPlan& plan, const Bytes& record, const TensorView& workspace,
          const TensorView& qo_indptr, const TensorView& indptr, const TensorView& indices,
          const TensorView& last_page_len, const TensorView& mask, const TensorView& prefix_len) {
  AttentionTables tables{qo_indptr, indptr, indices, last_page_len, {}};
  tables.mask.prefix_len = prefix_len;
  (prefix_len.defined() ? tables.mask.token_pos_in_items : tables.mask.custom) = mask;
  plan->UseWorkspace(workspace);
  plan->Plan(record, tables);
}

/// All tables on the device; without `qo_indptr` a decode, without `last_page_len` not in pages.
void PlanOnDevice(const AttentionPlan& plan, const Bytes& record, const TensorView& workspace,
                  const TensorView& qo_indptr, const TensorView& indptr, const TensorView& indices,
                  const TensorView& last_page_len, int64_t max_tokens, int64_t max_keys) {
  plan->UseWorkspace(workspace);
  plan->PlanOnDevice(record, {qo_indptr, indptr, indices, last_page_len, {}}, max_tokens, max_keys);
}

void ReplanOnDevice(const AttentionPlan& plan) { plan->ReplanOnDevice(); }

void Change(const AttentionPlan& plan, const Bytes& record) { plan->Change(record); }

void Run(const AttentionPlan& plan, const TensorView& q, const TensorView& k, const TensorView& v,
         const TensorView& out, const TensorView& lse, double q_scale, double k_scale,
         double v_scale) {
  AttentionExtras extras;
  extras.q_scale = static_cast<float>(q_scale);
  extras.k_scale = static_cast<float>(k_scale);
  extras.v_scale = static_cast<float>(v_scale);
  plan->Run(q, k, v, out, lse, extras);
}

void RunWith(const AttentionPlan& plan, const TensorView& q, const TensorView& k,
             const TensorView& v, const TensorView& out, const TensorView& lse,
             const Array<double>& scales, const Array<Optional<Tensor>>& tensors) {
  plan->Run(q, k, v, out, lse, ExtrasOf(scales, tensors));
}

void UseVariant(const AttentionPlan& plan, const Variant& variant) { plan->UseVariant(variant); }

/// `tensors` are the six of every run, then the variant's; `numbers` are the variant's.
void RunVariant(const AttentionPlan& plan, const TensorView& q, const TensorView& k,
                const TensorView& v, const TensorView& out, const TensorView& lse,
                const Array<double>& scales, const Array<Optional<Tensor>>& tensors,
                const Array<double>& numbers) {
  AttentionExtras extras = ExtrasOf(scales, tensors);
  const std::vector<VariantValue> all = ValuesOf(tensors, numbers, kNumExtraTensors);
  extras.variant_values = all;
  plan->Run(q, k, v, out, lse, extras);
}

/// For a tensor that begins anywhere, of a device of compute capability `arch`, 0: in host memory.
/// `max_tokens` 0: a decode.
int64_t WorkspaceBytes(const Bytes& record, int64_t arch, int64_t max_requests,
                       int64_t max_tokens) {
  AttentionProblem problem = ProblemOf(ReadAttentionRecord(record));
  problem.arch = static_cast<int32_t>(arch);
  const Backend backend = BackendOf(record, sizeof(AttentionRecord));
  size_t bytes = 0;
  if (max_tokens == 0) {
    bytes = BatchDecode::WorkspaceBytes(problem, max_requests, backend);
  } else if (problem.page_size == 0) {
    bytes = BatchPrefillRagged::WorkspaceBytes(problem, max_requests, max_tokens, backend);
  } else {
    bytes = BatchPrefill::WorkspaceBytes(problem, max_requests, max_tokens, backend);
  }
  return static_cast<int64_t>(bytes + kWorkspaceAlignment - 1);
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(attention_plan_make, flashinfer::bindings::Make)
FLASHINFER_EXPORT(attention_begin_plan, flashinfer::bindings::BeginPlan)
FLASHINFER_EXPORT(attention_plan, flashinfer::bindings::Plan)
FLASHINFER_EXPORT(attention_plan_on_device, flashinfer::bindings::PlanOnDevice)
FLASHINFER_EXPORT(attention_replan_on_device, flashinfer::bindings::ReplanOnDevice)
FLASHINFER_EXPORT(attention_plan_change, flashinfer::bindings::Change)
FLASHINFER_EXPORT(attention_run, flashinfer::bindings::Run)
FLASHINFER_EXPORT(attention_run_with, flashinfer::bindings::RunWith)
FLASHINFER_EXPORT(attention_use_variant, flashinfer::bindings::UseVariant)
FLASHINFER_EXPORT(attention_run_variant, flashinfer::bindings::RunVariant)
FLASHINFER_EXPORT(attention_workspace_bytes, flashinfer::bindings::WorkspaceBytes)
