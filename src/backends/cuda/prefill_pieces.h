// SPDX-License-Identifier: Apache-2.0
// The work of kernels that prefill in pieces: rows of requests times keys, long ones split along
// the keys, as tables on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/kernel.h"
#include "kernels/attention/prefill_plan_spec.h"
#include "kernels/attention/prefill_spec.h"
#include "ops/attention.h"
#include "plan/attention_plan.h"

namespace flashinfer::cuda {

/// Shared memory that a block may have, by architecture (CUDA C++ Programming Guide).
int32_t BlockSmemBytes(int32_t arch);

/// Bytes to which rows are aligned, up to 16: of queries, of the cache, of the output.
struct RowAccess {
  int32_t q;
  int32_t kv;
  int32_t out;
};

template <class Spec>
void SetAccess(const RowAccess& access, Spec& spec) {
  spec.q_access_bytes = access.q;
  spec.kv_access_bytes = access.kv;
  spec.out_access_bytes = access.out;
}

/// How a kernel's blocks share a batch.
struct PrefillGrid {
  int32_t rows_tile = 64;
  int32_t kv_tile = 64;
  int64_t num_tiles = 1;     ///< blocks of a piece
  size_t partial_bytes = 0;  ///< of a partial result, all tiles together
  int32_t fixed_kv_chunk = 0;
};

/// Partial results of a plan for any batch, on the largest device.
size_t PrefillPartialBytes(const PrefillGrid& grid);

/// What pieces depend on, apart from lengths.
struct PieceRows {
  int32_t group_size = 1;
  bool causal = false;
  int32_t window_left = -1;
};

/// Arrays that go to the device in one copy.
class Staging {
 public:
  void Clear() { bytes_.clear(); }
  /// The offset at which `values` begin.
  template <class T>
  size_t Add(const std::vector<T>& values) {
    return Add(values.data(), values.size() * sizeof(T));
  }
  size_t AddZeros(size_t size) { return Add(nullptr, size); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  size_t Add(const void* data, size_t size);
  std::vector<char> bytes_;
};

/// A plan: Plan() or PlanOnDevice(), Add() of what else the executor has for the device, Upload().
class PrefillPieces {
 public:
  /// Shares the batch among the blocks of `kernel`, with as many splits as the workspace has room
  /// for. Throws kInvalidArgument for lengths that kernels cannot count.
  void Plan(const AttentionTables& tables, const PieceRows& rows, const PrefillGrid& grid,
            const Kernel& kernel, Workspace& workspace);

  /// The same of any batch up to these sizes, by Replan().
  void PlanOnDevice(const DeviceLengths& lengths, const PieceRows& rows, const PrefillGrid& grid,
                    const Kernel& kernel, Workspace& workspace);

  /// The offset of an array that goes to the device with the plan.
  template <class T>
  size_t Add(const std::vector<T>& values) {
    return staging_.Add(values);
  }
  void Upload(Device device, Stream stream);
  /// Plans the lengths that are on the device; after PlanOnDevice() and Upload().
  void Replan(Stream stream) const;

  /// Blocks of a tile that a launch has; 0: there is nothing to do.
  int64_t num_pieces() const { return num_pieces_; }
  int64_t num_requests() const { return num_requests_; }
  template <class T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(block_ + offset);
  }
  /// Puts the plan's tables into the parameters of a call, with partial results of so many columns.
  void SetTables(kernels::PrefillParams& params, int32_t num_columns) const;

 private:
  kernels::AttentionPlanLimits LimitsOn(const PrefillGrid& grid, const Kernel& kernel,
                                        size_t workspace_bytes) const;
  void ReservePartials(const PrefillGrid& grid, int64_t num_partials, Workspace& workspace);
  void ReadRequests(const AttentionTables& tables, int32_t group_size);
  void MakePieces();

  AttentionPlan plan_;
  std::vector<kernels::PrefillRequest> requests_;
  std::vector<kernels::PrefillPiece> pieces_;
  std::vector<int32_t> merge_of_;
  PrefillGrid grid_;
  int64_t num_requests_ = 0;
  int64_t num_pieces_ = 0;
  Staging staging_;
  size_t requests_at_ = 0;
  size_t pieces_at_ = 0;
  size_t counters_at_ = 0;
  size_t unsorted_at_ = 0;
  size_t sums_at_ = 0;
  // The tables' own memory: plans that share a workspace may run in turns.
  std::unique_ptr<Workspace> memory_;
  char* block_ = nullptr;
  Workspace* workspace_ = nullptr;
  /// Places for partial results: as many for any batch, so that addresses which a graph has
  /// recorded stay valid, but for fixed splits.
  int64_t num_partials_ = 0;
  size_t partial_bytes_ = 0;
  const Kernel* planner_ = nullptr;  ///< null: the host has planned
  kernels::PrefillPlanParams planner_params_ = {};
};

/// Throws kInvalidArgument for batches that PlanOnDevice() cannot plan.
void CheckDeviceLengths(const DeviceLengths& lengths, int32_t group_size, int32_t fixed_split_size);

}  // namespace flashinfer::cuda
