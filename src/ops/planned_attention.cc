// SPDX-License-Identifier: Apache-2.0
// The plan/run object behind every form of attention: check, choose and plan; then run.
#include "ops/planned_attention.h"

#include "core/check.h"
#include "core/fields.h"
#include "cuda/device.h"

namespace flashinfer {

std::vector<LogArgument> LogArgumentsOf(const AttentionMask& mask) {
  return {{"mask.custom", mask.custom},
          {"mask.prefix_len", mask.prefix_len},
          {"mask.token_pos_in_items", mask.token_pos_in_items}};
}

std::vector<LogArgument> LogArgumentsOf(const AttentionTensors& t) {
  return {{"q", t.q},
          {"cache.k", t.cache.k},
          {"cache.v", t.cache.v},
          {"cache.layout", std::string(Name(t.cache.layout))},
          {"out", t.out},
          {"lse", t.lse},
          {"q_scale", ValueText(t.extras.q_scale)},
          {"k_scale", ValueText(t.extras.k_scale)},
          {"v_scale", ValueText(t.extras.v_scale)},
          {"q_scales", t.extras.q_scales},
          {"k_scales", t.extras.k_scales},
          {"v_scales", t.extras.v_scales},
          {"sinks", t.extras.sinks},
          {"alibi_slopes", t.extras.alibi_slopes},
          {"bias", t.extras.bias}};
}

PlannedAttention::PlannedAttention(std::string_view name, Chooser chooser, Workspace& workspace)
    : name_(name), chooser_(chooser), workspace_(&workspace) {}

bool PlannedAttention::Logs(int level) const { return LogLevel() >= level && !name_.empty(); }

size_t PlannedAttention::WorkspaceBytes(Chooser chooser, const AttentionProblem& problem,
                                        int64_t max_requests, int64_t max_tokens, Backend backend) {
  CheckAttentionProblem(problem);
  return chooser(problem, backend).workspace_bytes(problem, max_requests, max_tokens);
}

void PlannedAttention::Read(const AttentionPlanInputs& inputs, const AttentionProblem& problem) {
  tables_.device = workspace_->device();
  if (problem.page_size == kNoPages) {
    ReadKvIndptr(inputs.kv_indptr, tables_);
  } else {
    ReadPageTable(inputs.pages, problem.page_size, tables_);
  }
  ReadQueryLengths(inputs.qo_indptr, tables_);
  ReadMask(problem.mask, inputs.mask, tables_);
}

void PlannedAttention::LogPlan(const AttentionProblem& problem,
                               const AttentionPlanInputs& inputs) const {
  std::vector<LogArgument> arguments{
      {"object", ObjectText(this)},      {"problem", FieldsText(name_, problem)},
      {"qo_indptr", inputs.qo_indptr},   {"indptr", inputs.pages.indptr},
      {"indices", inputs.pages.indices}, {"last_page_len", inputs.pages.last_page_len},
      {"kv_indptr", inputs.kv_indptr}};
  for (LogArgument& a : LogArgumentsOf(inputs.mask)) arguments.push_back(std::move(a));
  LogCall(name_ + ".plan", arguments);
}

void PlannedAttention::ChooseEntry(const AttentionProblem& problem, Backend backend) {
  CheckAttentionProblem(problem);
  const AttentionEntry& entry = chooser_(problem, backend);
  if (entry_ == &entry) return;
  executor_ = entry.make();
  entry_ = &entry;
}

void PlannedAttention::Plan(const AttentionProblem& given, const AttentionPlanInputs& inputs,
                            Backend backend, Stream stream) {
  AttentionProblem problem = given;
  problem.arch = cuda::ArchOf(workspace_->device());
  if (Logs(1)) [[unlikely]]
    LogPlan(problem, inputs);
  is_planned_ = false;  // half a plan must not run
  on_device_.reset();
  if (problem.variant != nullptr) problem.variant = &variant_.emplace(*problem.variant);
  ChooseEntry(problem, backend);
  Read(inputs, problem);
  executor_->Plan(problem, tables_, *workspace_, stream);
  problem_ = problem;
  is_planned_ = true;
  if (Logs(5)) [[unlikely]]
    LogReturn(name_ + ".plan", {});
}

void PlannedAttention::PlanOnDevice(const AttentionProblem& given,
                                    const AttentionPlanInputs& inputs,
                                    const AttentionMaxima& maxima, Backend backend, Stream stream) {
  FLASHINFER_CHECK(workspace_->device().type == DeviceType::kCuda,
                   "workspace: is in host memory, a plan on the device needs a CUDA device");
  AttentionProblem problem = given;
  problem.arch = cuda::ArchOf(workspace_->device());
  is_planned_ = false;
  on_device_.reset();
  ChooseEntry(problem, backend);
  tables_.device = workspace_->device();
  DeviceLengths lengths = inputs.kv_indptr.defined()
                              ? ReadDeviceKvIndptr(inputs.kv_indptr, maxima.keys, tables_)
                              : ReadDevicePageTable(inputs.pages, problem.page_size, tables_);
  ReadDeviceQueryLengths(inputs.qo_indptr, maxima.tokens, tables_, lengths);
  tables_.mask = {};
  executor_->PlanOnDevice(problem, tables_, lengths, *workspace_, stream);
  problem_ = problem;
  on_device_ = inputs;
  is_planned_ = true;
  Replan(stream);
}

void PlannedAttention::Replan(Stream stream) const {
  FLASHINFER_CHECK(is_planned_ && on_device_.has_value(),
                   "Replan() was called before a successful PlanOnDevice()");
  // Lengths as they are now: to who reads the log, this is a plan of them.
  if (Logs(1)) [[unlikely]]
    LogPlan(problem_, *on_device_);
  executor_->Replan(stream);
  if (Logs(5)) [[unlikely]]
    LogReturn(name_ + ".plan", {});
}

void PlannedAttention::Run(const AttentionTensors& tensors, Stream stream) const {
  if (Logs(1)) [[unlikely]] {
    std::vector<LogArgument> arguments = LogArgumentsOf(tensors);
    arguments.insert(arguments.begin(), {"object", ObjectText(this)});
    for (size_t i = 0; variant_ && i < tensors.extras.variant_values.size(); ++i) {
      const VariantValue& value = tensors.extras.variant_values[i];
      if (i == variant_->parameters().size()) break;
      const std::string& name = variant_->parameters()[i].name;
      if (value.tensor.defined()) {
        arguments.emplace_back(name, value.tensor);
      } else {
        arguments.emplace_back(name, ValueText(static_cast<float>(value.number)));
      }
    }
    LogCall(name_ + ".run", arguments);
  }
  FLASHINFER_CHECK(is_planned_, "Run() was called before a successful Plan()");
  CheckAttentionTensors(problem_, tables_, tensors);
  executor_->Run(tensors, stream);
  if (Logs(5)) [[unlikely]]
    LogReturn(name_ + ".run", {{"out", tensors.out}, {"lse", tensors.lse}});
}

PagedKvCache AsOnePage(const RaggedKv& kv) {
  const auto one_page = [](std::string_view name, const TensorView& t) {
    CheckTensor(name, t).Rank(3);
    return TensorView(t.data(), t.dtype(), {1, t.shape(0), t.shape(1), t.shape(2)},
                      {0, t.stride(0), t.stride(1), t.stride(2)}, t.device());
  };
  return {one_page("k", kv.k), one_page("v", kv.v), kv.layout};
}

}  // namespace flashinfer
