// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU: plan, workspace, and pieces handed to threads.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

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
int32_t HeadsPerPiece(const AttentionProblem& p, const AttentionLengths& lengths, int num_lanes) {
  int64_t num_chunks = 0;
  for (size_t b = 0; b < lengths.kv_len.size(); ++b) {
    if (lengths.q_len[b] != 1) return 1;
    num_chunks += lengths.kv_len[b] / kKeysPerLane + 1;
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
  explicit CpuAttention(const AttentionKernels& kernels) : kernels_(kernels) {}

  void Plan(const AttentionProblem& problem, const AttentionLengths& lengths,
            Workspace& workspace) override {
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
    heads_per_piece_ = HeadsPerPiece(problem, lengths, num_lanes_);
    PlanAttention({lengths.q_len, lengths.kv_len, problem.num_kv_heads / heads_per_piece_,
                   problem.group_size() * heads_per_piece_, problem.causal, problem.window_left},
                  {.rows_tile = kAttentionRowsTile,
                   .kv_tile = kAttentionKvTile,
                   .num_lanes = num_lanes_,
                   .fixed_kv_chunk = problem.fixed_split_size,
                   .max_partials = max_partials},
                  plan_);
    bytes_ = lanes_bytes + static_cast<size_t>(plan_.num_partials) * PartialBytes(problem);
    workspace.Reserve(bytes_);
    workspace_ = &workspace;
    CopyLengths(lengths);
  }

  void Run(const AttentionTensors& tensors) const override {
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
        AttentionTask task = TaskOf(tensors, m.request, m.kv_head);
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
    AttentionTask task = TaskOf(tensors, w.request, w.kv_head);
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

  /// What Run() needs of the lengths: they belong to the caller and move after Plan().
  void CopyLengths(const AttentionLengths& lengths) {
    requests_.resize(lengths.kv_len.size());
    for (size_t b = 0; b < requests_.size(); ++b) {
      requests_[b] = {lengths.q_begin[b], lengths.page_begin[b],
                      lengths.kv_len[b] - lengths.q_len[b]};
    }
    pages_ = lengths.pages;
    pages_stride_ = lengths.pages_stride;
  }

  /// `part`: which heads_per_piece_ of the KV heads.
  AttentionTask TaskOf(const AttentionTensors& t, int32_t request, int32_t part) const {
    const Request& r = requests_[static_cast<size_t>(request)];
    const int64_t kv_head = int64_t{part} * heads_per_piece_;
    const int64_t head = kv_head * problem_.group_size();
    AttentionTask task{};
    task.num_kv_heads = heads_per_piece_;
    task.num_qo_heads = heads_per_piece_ * problem_.group_size();
    task.problem = &problem_;
    task.q = At(t.q, r.q_begin * t.q.stride(0) + head * t.q.stride(1));
    task.out = const_cast<char*>(At(t.out, r.q_begin * t.out.stride(0) + head * t.out.stride(1)));
    if (t.lse.defined()) {
      task.lse = t.lse.data_as<float>() + r.q_begin * t.lse.stride(0) + head * t.lse.stride(1);
      task.lse_stride_token = t.lse.stride(0);
      task.lse_stride_head = t.lse.stride(1);
    }
    task.q_stride_token = t.q.stride(0);
    task.q_stride_head = t.q.stride(1);
    task.out_stride_token = t.out.stride(0);
    task.out_stride_head = t.out.stride(1);
    task.k_strides = StridesOf(t.cache.k, t.cache.layout);
    task.v_strides = StridesOf(t.cache.v, t.cache.layout);
    task.k = At(t.cache.k, kv_head * task.k_strides.head);
    task.v = At(t.cache.v, kv_head * task.v_strides.head);
    task.pages = pages_ + r.page_begin * pages_stride_;
    task.pages_stride = pages_stride_;
    task.position = r.position;
    return task;
  }

  static const char* At(const TensorView& tensor, int64_t offset) {
    return tensor.data_as<const char>() + offset * SizeBytes(tensor.dtype());
  }

  struct Request {
    int64_t q_begin;
    int64_t page_begin;
    int64_t position;
  };

  const AttentionKernels& kernels_;
  AttentionProblem problem_;
  AttentionPlan plan_;
  std::vector<Request> requests_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
  int num_lanes_ = 1;
  int32_t heads_per_piece_ = 1;
  Workspace* workspace_ = nullptr;
  size_t bytes_ = 0;
};

bool IsFloat(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

}  // namespace

bool AcceptsAttention(const AttentionProblem& problem, std::string* why) {
  if (!IsFloat(problem.dtype_q)) return Refuse(why, "dtype_q must be f32, f16 or bf16");
  if (!IsFloat(problem.dtype_kv)) return Refuse(why, "dtype_kv must be f32, f16 or bf16");
  if (!IsFloat(problem.dtype_out)) return Refuse(why, "dtype_out must be f32, f16 or bf16");
  return true;
}

size_t AttentionWorkspaceBytes(const AttentionProblem& problem, int64_t max_tokens) {
  if (max_tokens == 0) return 0;
  const int num_lanes = NumThreads();
  return static_cast<size_t>(num_lanes) * LaneBytes(problem) +
         static_cast<size_t>(MaxPartials(num_lanes)) * PartialBytes(problem);
}

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels) {
  return std::make_unique<CpuAttention>(kernels);
}

}  // namespace flashinfer::cpu
