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

AttentionScratch TakeScratch(const AttentionProblem& p, ScratchCursor& cursor) {
  AttentionScratch s{};
  s.q = cursor.Take<float>(kAttentionRowsTile * p.head_dim_qk);
  s.k = cursor.Take<float>(kAttentionKvTile * p.head_dim_qk);
  s.v = cursor.Take<float>(kAttentionKvTile * p.head_dim_vo);
  s.scores = cursor.Take<float>(kAttentionRowsTile * kAttentionKvTile);
  s.sums = cursor.Take<float>(4 * 16 * 16);
  s.out = cursor.Take<float>(kAttentionRowsTile * p.head_dim_vo);
  s.max = cursor.Take<float>(kAttentionRowsTile);
  s.denominator = cursor.Take<float>(kAttentionRowsTile);
  return s;
}

size_t LaneBytes(const AttentionProblem& p) {
  ScratchCursor cursor(nullptr);
  TakeScratch(p, cursor);
  return cursor.used();
}

int64_t PartialFloats(const AttentionProblem& p) {
  return int64_t{kAttentionRowsTile} * (p.head_dim_vo + 2);
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
    const size_t partial_bytes = static_cast<size_t>(PartialFloats(problem)) * sizeof(float);
    // A workspace that cannot hold every partial result gets a plan with fewer splits.
    const size_t room = workspace.max_bytes() - std::min(workspace.max_bytes(), lanes_bytes);
    const int64_t max_partials =
        std::min(MaxPartials(num_lanes_), static_cast<int64_t>(room / partial_bytes));
    PlanAttention(
        {lengths.q_len, lengths.kv_len, problem.num_kv_heads, problem.group_size(), problem.causal},
        {.rows_tile = kAttentionRowsTile, .num_lanes = num_lanes_, .max_partials = max_partials},
        plan_);
    block_ =
        workspace.Reserve(lanes_bytes + static_cast<size_t>(plan_.num_partials) * partial_bytes);
    partials_ = reinterpret_cast<float*>(static_cast<char*>(block_) + lanes_bytes);
    CopyLengths(lengths);
  }

  void Run(const AttentionTensors& tensors) const override {
    std::atomic<size_t> next{0};
    const auto work = [&](Lane lane) {
      if (lane.index >= num_lanes_) return;  // more threads than when planned
      for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < plan_.work.size();
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        const AttentionWork& w = plan_.work[i];
        AttentionTask task = TaskOf(tensors, w.request, w.kv_head);
        task.scratch = ScratchOf(lane);
        task.row_begin = w.row_begin;
        task.row_end = w.row_end;
        task.kv_begin = w.kv_begin;
        task.kv_end = w.kv_end;
        if (w.partial >= 0) task.partial = partials_ + w.partial * PartialFloats(problem_);
        kernels_.run(task);
      }
    };
    if (plan_.work.size() <= 1) {
      work({0, 1});
    } else {
      ForEachLane(work);
    }
    ParallelFor(static_cast<int64_t>(plan_.merges.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const AttentionMerge& m = plan_.merges[static_cast<size_t>(i)];
        AttentionTask task = TaskOf(tensors, m.request, m.kv_head);
        task.row_begin = m.row_begin;
        task.row_end = m.row_end;
        kernels_.merge(task, partials_ + m.first_partial * PartialFloats(problem_),
                       PartialFloats(problem_), m.num_partials);
      }
    });
  }

 private:
  /// What Run() needs of the lengths: they belong to the caller and move after Plan().
  void CopyLengths(const AttentionLengths& lengths) {
    requests_.resize(lengths.kv_len.size());
    for (size_t b = 0; b < requests_.size(); ++b) {
      const int64_t kv_len = lengths.kv_len[b];
      const int64_t visible = problem_.causal ? kv_len - lengths.q_len[b] + 1 : kv_len;
      requests_[b] = {lengths.q_begin[b], lengths.page_begin[b], visible};
    }
    pages_ = lengths.pages;
    pages_stride_ = lengths.pages_stride;
  }

  AttentionScratch ScratchOf(Lane lane) const {
    ScratchCursor cursor(static_cast<char*>(block_) +
                         static_cast<size_t>(lane.index) * LaneBytes(problem_));
    return TakeScratch(problem_, cursor);
  }

  AttentionTask TaskOf(const AttentionTensors& t, int32_t request, int32_t kv_head) const {
    const Request& r = requests_[static_cast<size_t>(request)];
    const int64_t head = int64_t{kv_head} * problem_.group_size();
    AttentionTask task{};
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
    task.visible = r.visible;
    return task;
  }

  static const char* At(const TensorView& tensor, int64_t offset) {
    return tensor.data_as<const char>() + offset * SizeBytes(tensor.dtype());
  }

  struct Request {
    int64_t q_begin;
    int64_t page_begin;
    int64_t visible;
  };

  const AttentionKernels& kernels_;
  AttentionProblem problem_;
  AttentionPlan plan_;
  std::vector<Request> requests_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
  int num_lanes_ = 1;
  void* block_ = nullptr;
  float* partials_ = nullptr;
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
         static_cast<size_t>(MaxPartials(num_lanes) * PartialFloats(problem)) * sizeof(float);
}

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels) {
  return std::make_unique<CpuAttention>(kernels);
}

}  // namespace flashinfer::cpu
