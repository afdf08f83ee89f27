// SPDX-License-Identifier: Apache-2.0
// Runs planned attention on the CPU: workspace, pieces that threads take as they are free, merges.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/attention.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/thread_pool.h"
#include "flashinfer/cpu.h"
#include "flashinfer/stream.h"
#include "plan/attention_plan.h"

namespace flashinfer::cpu {

/// `Op` says what an operator's pieces are made of: the types Problem, Task and Kernels, the tile
/// sizes kRowsTile and kKvTile, and TakeState() and TakeScratch(), which cut a lane's memory.
template <class Op>
class PlannedPieces {
 public:
  using Problem = typename Op::Problem;
  using Task = typename Op::Task;
  using Kernels = typename Op::Kernels;

  /// Workspace of a plan, whatever the lengths of keys.
  static size_t WorkspaceBytes(const Problem& problem, int64_t max_tokens) {
    if (max_tokens == 0) return 0;
    const int num_lanes = NumThreads();
    return static_cast<size_t>(num_lanes) * LaneBytes(problem) +
           static_cast<size_t>(MaxPartials(num_lanes)) * PartialBytes(problem);
  }

  void Plan(const Problem& problem, const AttentionBatch& batch, Workspace& workspace) {
    num_lanes_ = NumThreads();
    lane_bytes_ = LaneBytes(problem);
    partial_bytes_ = PartialBytes(problem);
    const size_t lanes_bytes = static_cast<size_t>(num_lanes_) * lane_bytes_;
    // A workspace that cannot hold every partial result gets a plan with fewer splits.
    const size_t room = workspace.max_bytes() - std::min(workspace.max_bytes(), lanes_bytes);
    const int64_t max_partials =
        std::min(MaxPartials(num_lanes_), static_cast<int64_t>(room / partial_bytes_));
    PlanAttention(batch,
                  {.rows_tile = Op::kRowsTile,
                   .kv_tile = Op::kKvTile,
                   .num_lanes = num_lanes_,
                   .fixed_kv_chunk = problem.fixed_split_size,
                   .max_partials = max_partials},
                  plan_);
    bytes_ = lanes_bytes + static_cast<size_t>(plan_.num_partials) * partial_bytes_;
    workspace.Reserve(bytes_);
    workspace_ = &workspace;
  }

  /// `task_of(request, kv_head)` gives tasks of the planned problem but for rows, keys, scratch and
  /// partial result.
  template <class TaskOf>
  void Run(const Kernels& kernels, const Problem& problem, const TaskOf& task_of) const {
    // Another plan may have made the workspace grow: it is asked each time where it is.
    char* const block = static_cast<char*>(workspace_->Reserve(bytes_));
    const auto num_pieces = static_cast<int64_t>(plan_.work.size());
    const int64_t grain = std::max<int64_t>(1, num_pieces / (num_lanes_ * kGrabsPerLane));
    std::atomic<int64_t> next{0};
    const auto work = [&](Lane lane) {
      if (lane.index >= num_lanes_) return;  // more threads than when planned
      for (int64_t begin = next.fetch_add(grain, std::memory_order_relaxed); begin < num_pieces;
           begin = next.fetch_add(grain, std::memory_order_relaxed)) {
        for (int64_t i = begin; i < std::min(begin + grain, num_pieces); ++i) {
          const AttentionWork& w = plan_.work[static_cast<size_t>(i)];
          RunPiece(kernels, problem, task_of(w.request, w.kv_head), w, {block, lane.index});
        }
      }
    };
    if (num_pieces <= 1) {
      work({0, 1});
    } else {
      ForEachLane(work);
    }
    const auto num_merges = static_cast<int64_t>(plan_.merges.size());
    ParallelFor(num_merges, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const AttentionMerge& m = plan_.merges[static_cast<size_t>(i)];
        Task task = task_of(m.request, m.kv_head);
        task.row_begin = m.row_begin;
        task.row_end = m.row_end;
        kernels.merge(task, PartialAt(problem, block, m.first_partial),
                      static_cast<int64_t>(partial_bytes_ / sizeof(float)), m.num_partials);
      }
    });
  }

 private:
  /// Pieces that a lane takes at once when there are very many.
  static constexpr int64_t kGrabsPerLane = 64;

  struct LaneMemory {
    char* block;
    int lane;
  };

  static size_t LaneBytes(const Problem& problem) {
    ScratchCursor cursor(nullptr);
    Op::TakeScratch(problem, cursor);
    return cursor.used();
  }
  static size_t PartialBytes(const Problem& problem) {
    ScratchCursor cursor(nullptr);
    Op::TakeState(problem, cursor);
    return cursor.used();
  }

  void RunPiece(const Kernels& kernels, const Problem& problem, Task task, const AttentionWork& w,
                LaneMemory memory) const {
    ScratchCursor cursor(memory.block + static_cast<size_t>(memory.lane) * lane_bytes_);
    task.scratch = Op::TakeScratch(problem, cursor);
    task.row_begin = w.row_begin;
    task.row_end = w.row_end;
    task.kv_begin = w.kv_begin;
    task.kv_end = w.kv_end;
    AttentionState partial{};
    if (w.partial >= 0) {
      partial = PartialAt(problem, memory.block, w.partial);
      task.partial = &partial;
    }
    kernels.run(task);
  }

  AttentionState PartialAt(const Problem& problem, char* block, int64_t index) const {
    ScratchCursor cursor(block + static_cast<size_t>(num_lanes_) * lane_bytes_ +
                         static_cast<size_t>(index) * partial_bytes_);
    return Op::TakeState(problem, cursor);
  }

  AttentionPlan plan_;
  int num_lanes_ = 1;
  size_t lane_bytes_ = 0;
  size_t partial_bytes_ = 0;
  Workspace* workspace_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace flashinfer::cpu
