// SPDX-License-Identifier: Apache-2.0
// The plan/run object behind every form of attention.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "flashinfer/backend.h"
#include "ops/attention.h"

namespace flashinfer {

/// What Plan() reads besides the problem. `pages` or `kv_indptr` is given.
struct AttentionPlanInputs {
  TensorView qo_indptr = {};  ///< undefined: one token a request
  PageTable pages = {};
  TensorView kv_indptr = {};
  AttentionMask mask = {};
};

/// Of a batch whose lengths only the device knows; what its tensors' sizes tell is not here.
struct AttentionMaxima {
  int64_t tokens = 0;  ///< where there is qo_indptr
  int64_t keys = 0;    ///< where there is kv_indptr
};

class PlannedAttention {
 public:
  /// `Choose` of an operator.
  using Chooser = const AttentionEntry& (*)(const AttentionProblem& problem, Backend backend);

  /// `name` is the operator's in the API log; empty: it makes no entries.
  PlannedAttention(std::string_view name, Chooser chooser, Workspace& workspace);

  static size_t WorkspaceBytes(Chooser chooser, const AttentionProblem& problem,
                               int64_t max_requests, int64_t max_tokens, Backend backend);

  void Plan(const AttentionProblem& problem, const AttentionPlanInputs& inputs, Backend backend,
            Stream stream);
  /// Of `inputs` without a mask, which are on the device.
  void PlanOnDevice(const AttentionProblem& problem, const AttentionPlanInputs& inputs,
                    const AttentionMaxima& maxima, Backend backend, Stream stream);
  void Replan(Stream stream) const;
  void Run(const AttentionTensors& tensors, Stream stream) const;

 private:
  /// Whether calls are logged at `level` or above.
  bool Logs(int level) const;
  void LogPlan(const AttentionProblem& problem, const AttentionPlanInputs& inputs) const;
  void Read(const AttentionPlanInputs& inputs, const AttentionProblem& problem);
  void ChooseEntry(const AttentionProblem& problem, Backend backend);

  std::string name_;
  Chooser chooser_;
  Workspace* workspace_;
  AttentionProblem problem_;
  std::optional<AttentionVariant> variant_;  ///< of the problem
  AttentionTables tables_;
  const AttentionEntry* entry_ = nullptr;
  std::unique_ptr<AttentionExecutor> executor_;
  std::optional<AttentionPlanInputs> on_device_;  ///< none after a plan on the host
  bool is_planned_ = false;
};

/// For the API log; what they are made from must outlive them.
std::vector<LogArgument> LogArgumentsOf(const AttentionMask& mask);
std::vector<LogArgument> LogArgumentsOf(const AttentionTensors& tensors);

/// Keys that are not in pages, as a cache of one page.
PagedKvCache AsOnePage(const RaggedKv& kv);

}  // namespace flashinfer
