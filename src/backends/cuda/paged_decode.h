// SPDX-License-Identifier: Apache-2.0
// What the executors of decode share: sharing a batch among a kernel's blocks, tables on the
// device, and the parameters of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/kernel.h"
#include "kernels/attention/decode_plan_spec.h"
#include "ops/attention.h"
#include "plan/decode_plan.h"

namespace flashinfer::cuda {

/// How a kernel's blocks share a batch.
struct DecodeGrid {
  int32_t rows_tile = 1;
  int32_t row_tiles = 1;    ///< of a KV head: ceil(group_size / rows_tile)
  int32_t num_columns = 1;  ///< of a row of a partial result
  int32_t kv_tile = 32;
};

/// Workspace of a plan for any batch, on the largest device.
size_t DecodePartialBytes(const AttentionProblem& problem, const DecodeGrid& grid);

/// Whether a cache tensor has so many accesses that 32 bits cannot count them.
bool IsWide(const PagedKvCache& cache, int64_t access_elements);

class PagedDecode : public AttentionExecutor {
 public:
  /// Throws kInvalidArgument for lengths that kernels cannot count.
  void Plan(const AttentionProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream stream) final;
  void PlanOnDevice(const AttentionProblem& problem, const AttentionTables& tables,
                    const DeviceLengths& lengths, Workspace& workspace, Stream stream) final;
  void Replan(Stream stream) const final;

 protected:
  /// Gets the kernel of a problem ready.
  virtual const Kernel& Prepare(const AttentionProblem& problem, Device device,
                                DecodeGrid& grid) = 0;

  /// Launches `kernel`, which has the problem's variant and reads the cache in accesses of so many
  /// elements.
  void LaunchOn(const Kernel& kernel, const AttentionTensors& tensors, int64_t access_elements,
                Stream stream) const;

  bool is_empty() const { return num_requests_ == 0; }
  const AttentionProblem& problem() const { return problem_; }
  Device device() const { return device_; }

 private:
  int64_t num_tiles() const { return int64_t{problem_.num_kv_heads} * grid_.row_tiles; }
  void Keep(const AttentionProblem& problem, const AttentionTables& tables);
  DecodePlanLimits LimitsOn(const Kernel& kernel, const Workspace& workspace);
  void ReservePartials(int64_t num_partials, Workspace& workspace);
  void LayOut(int64_t num_pieces, int64_t num_merges);
  void Upload(Stream stream);
  /// What a variant asks for.
  void UploadLengths(const AttentionTables& tables, Stream stream);
  kernels::DecodeParams ParamsOf(const AttentionTensors& tensors, int64_t access_elements) const;

  AttentionProblem problem_;
  DecodeGrid grid_;
  DecodePlan plan_;
  std::vector<char> staging_;
  // The tables' own memory: plans that share a workspace may run in turns.
  std::unique_ptr<Workspace> memory_;
  Workspace* workspace_ = nullptr;
  Device device_;
  int64_t num_requests_ = 0;
  int64_t num_slots_ = 1;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
  char* block_ = nullptr;  ///< of memory_: slots, pieces, counters, and what a planner needs
  size_t pieces_at_ = 0;
  size_t counters_at_ = 0;
  size_t planner_at_ = 0;
  size_t partial_o_at_ = 0;  ///< in the workspace, behind maxima and sums
  size_t partial_bytes_ = 0;
  std::vector<int32_t> lengths_staging_;
  std::unique_ptr<Workspace> lengths_memory_;
  int32_t* lengths_ = nullptr;  ///< for a variant
  const Kernel* planner_ = nullptr;
  kernels::DecodePlanParams planner_params_ = {};
};

}  // namespace flashinfer::cuda
