// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU: plan, workspace, and pieces handed to threads.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "backends/cpu/attention_tasks.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/thread_pool.h"
#include "core/check.h"
#include "flashinfer/cpu.h"
#include "plan/attention_plan.h"

namespace flashinfer::cpu {
namespace {

/// Keys that are worth a lane of their own.
constexpr int64_t kKeysPerLane = 128;

/// Pieces that a lane takes at once when there are very many.
constexpr int64_t kGrabsPerLane = 64;

AttentionState TakeState(const AttentionProblem& p, ScratchCursor& cursor) {
  AttentionState s{};
  s.o = cursor.Take<float>(kAttentionRowsTile * PaddedDim(p.head_dim_vo));
  s.m = cursor.Take<float>(kAttentionRowsTile);
  s.l = cursor.Take<float>(kAttentionRowsTile);
  return s;
}

AttentionScratch TakeScratch(const AttentionProblem& p, ScratchCursor& cursor) {
  AttentionScratch s{};
  s.q = cursor.Take<float>(kAttentionRowsTile * PaddedDim(p.head_dim_qk));
  s.k = cursor.Take<float>(kAttentionKvTile * p.head_dim_qk);
  s.v = cursor.Take<float>(kAttentionKvTile * PaddedDim(p.head_dim_vo));
  s.scores = cursor.Take<float>(kAttentionRowsTile * kAttentionKvTile);
  s.pairs = cursor.Take<float>(kAttentionRowsTile * kAttentionKvTile / 2);
  s.alpha = cursor.Take<float>(kAttentionRowsTile);
  s.state = TakeState(p, cursor);
  if (p.fixed_split_size > 0) s.folded = TakeState(p, cursor);
  if (p.pos_encoding == PositionEncoding::kRopeLlama) {
    s.cos = cursor.Take<float>(kAttentionKvTile * PaddedDim(p.head_dim_qk / 2));
    s.sin = cursor.Take<float>(kAttentionKvTile * PaddedDim(p.head_dim_qk / 2));
    s.rotated = cursor.Take<float>(kAttentionKvTile * PaddedDim(p.head_dim_qk));
  }
  return s;
}

size_t LaneBytes(const AttentionProblem& p) {
  ScratchCursor cursor(nullptr);
  TakeScratch(p, cursor);
  return cursor.used();
}

size_t PartialBytes(const AttentionProblem& p) {
  ScratchCursor cursor(nullptr);
  TakeState(p, cursor);
  return cursor.used();
}

/// KV heads that a piece takes together: as many as fit a tile of rows, so long as every lane has
/// work. Only for one token per request, whose rows see the same keys.
int32_t HeadsPerPiece(const AttentionProblem& p, const AttentionTables& tables, int num_lanes) {
  int64_t num_chunks = 0;
  for (size_t b = 0; b < tables.kv_len.size(); ++b) {
    if (tables.q_len[b] != 1) return 1;
    if (tables.kv_len[b] > 0) num_chunks += tables.kv_len[b] / kKeysPerLane + 1;
  }
  if (p.group_size() > kMaxRowsInPlace) return 1;
  int32_t best = 1;
  for (int32_t heads = 2; heads <= p.num_kv_heads; ++heads) {
    if (p.num_kv_heads % heads != 0 || heads * p.group_size() > kAttentionRowsTile) continue;
    if (num_chunks * (p.num_kv_heads / heads) >= num_lanes) best = heads;
  }
  return best;
}

class CpuAttention final : public AttentionExecutor {
 public:
  CpuAttention(const AttentionKernels& kernels, AttentionKind kind)
      : kernels_(kernels), kind_(kind) {}

  void Plan(const AttentionProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream) override {
    problem_ = problem;
    if (problem.sm_scale == 0) {
      problem_.sm_scale = 1.0f / std::sqrt(static_cast<float>(problem.head_dim_qk));
    }
    num_lanes_ = NumThreads();
    const size_t lanes_bytes = static_cast<size_t>(num_lanes_) * LaneBytes(problem);
    // A workspace that cannot hold every partial result gets a plan with fewer splits.
    const size_t room = workspace.max_bytes() - std::min(workspace.max_bytes(), lanes_bytes);
    const int64_t max_partials =
        std::min(MaxPartials(num_lanes_), static_cast<int64_t>(room / PartialBytes(problem)));
    heads_per_piece_ = HeadsPerPiece(problem, tables, num_lanes_);
    PlanAttention(
        {tables.q_len, tables.kv_len, problem.num_kv_heads / heads_per_piece_,
         problem.group_size() * heads_per_piece_, IsCausal(problem.mask), problem.window_left},
        {.rows_tile = kAttentionRowsTile,
         .kv_tile = kAttentionKvTile,
         .num_lanes = num_lanes_,
         .fixed_kv_chunk = problem.fixed_split_size,
         .max_partials = max_partials},
        plan_);
    bytes_ = lanes_bytes + static_cast<size_t>(plan_.num_partials) * PartialBytes(problem);
    workspace.Reserve(bytes_);
    workspace_ = &workspace;
    tasks_.Plan(problem_, tables, kind_, heads_per_piece_);
  }

  void Run(const AttentionTensors& tensors, Stream) const override {
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
          RunPiece(tensors, plan_.work[static_cast<size_t>(i)], block, lane.index);
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
        AttentionTask task = tasks_.TaskOf(tensors, m.request, m.kv_head);
        task.row_begin = m.row_begin;
        task.row_end = m.row_end;
        kernels_.merge(task, PartialAt(block, m.first_partial),
                       static_cast<int64_t>(PartialBytes(problem_) / sizeof(float)),
                       m.num_partials);
      }
    });
  }

 private:
  void RunPiece(const AttentionTensors& tensors, const AttentionWork& w, char* block,
                int lane) const {
    AttentionTask task = tasks_.TaskOf(tensors, w.request, w.kv_head);
    ScratchCursor cursor(block + static_cast<size_t>(lane) * LaneBytes(problem_));
    task.scratch = TakeScratch(problem_, cursor);
    task.row_begin = w.row_begin;
    task.row_end = w.row_end;
    task.kv_begin = w.kv_begin;
    task.kv_end = w.kv_end;
    AttentionState partial{};
    if (w.partial >= 0) {
      partial = PartialAt(block, w.partial);
      task.partial = &partial;
    }
    kernels_.run(task);
  }

  AttentionState PartialAt(char* block, int64_t index) const {
    ScratchCursor cursor(block + static_cast<size_t>(num_lanes_) * LaneBytes(problem_) +
                         static_cast<size_t>(index) * PartialBytes(problem_));
    return TakeState(problem_, cursor);
  }

  const AttentionKernels& kernels_;
  AttentionKind kind_;
  AttentionProblem problem_;
  AttentionPlan plan_;
  AttentionTasks tasks_;
  int num_lanes_ = 1;
  int32_t heads_per_piece_ = 1;
  Workspace* workspace_ = nullptr;
  size_t bytes_ = 0;
};

bool IsFloat(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kE4M3 ||
         t == DType::kE5M2;
}

}  // namespace

bool AcceptsAttention(const AttentionProblem& p, std::string* why) {
  if (p.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (!IsFloat(p.dtype_q)) return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  if (!IsFloat(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out)) return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  return true;
}

size_t AttentionWorkspaceBytes(const AttentionProblem& problem, int64_t, int64_t max_tokens) {
  if (max_tokens == 0) return 0;
  const int num_lanes = NumThreads();
  return static_cast<size_t>(num_lanes) * LaneBytes(problem) +
         static_cast<size_t>(MaxPartials(num_lanes)) * PartialBytes(problem);
}

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels,
                                                     AttentionKind kind) {
  return std::make_unique<CpuAttention>(kernels, kind);
}

}  // namespace flashinfer::cpu
