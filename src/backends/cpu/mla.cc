// SPDX-License-Identifier: Apache-2.0
// Latent attention on the CPU: plan, workspace, and pieces handed to threads.
#include "backends/cpu/mla.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/scratch.h"
#include "backends/cpu/thread_pool.h"
#include "flashinfer/cpu.h"
#include "plan/attention_plan.h"

namespace flashinfer::cpu {
namespace {

AttentionState TakeState(const MlaProblem& p, ScratchCursor& cursor) {
  AttentionState s{};
  s.o = cursor.Take<float>(kMlaRowsTile * PaddedDim(p.head_dim_ckv));
  s.m = cursor.Take<float>(kMlaRowsTile);
  s.l = cursor.Take<float>(kMlaRowsTile);
  return s;
}

MlaScratch TakeScratch(const MlaProblem& p, ScratchCursor& cursor) {
  MlaScratch s{};
  s.q = cursor.Take<float>(int64_t{kMlaRowsTile} * (p.head_dim_ckv + p.head_dim_kpe));
  s.k = cursor.Take<float>(kMlaKvTile * MlaKeyStride(p));
  s.v = cursor.Take<float>(kMlaKvTile / 2 * PaddedDim(p.head_dim_ckv));
  s.scores = cursor.Take<float>(kMlaRowsTile * kMlaKvTile);
  s.p = cursor.Take<float>(kMlaRowsTile * kMlaKvTile);
  s.alpha = cursor.Take<float>(kMlaRowsTile);
  s.begins = cursor.Take<float>(kMlaRowsTile);
  s.ends = cursor.Take<float>(kMlaRowsTile);
  s.state = TakeState(p, cursor);
  if (p.fixed_split_size > 0) s.folded = TakeState(p, cursor);
  return s;
}

size_t LaneBytes(const MlaProblem& p) {
  ScratchCursor cursor(nullptr);
  TakeScratch(p, cursor);
  return cursor.used();
}

size_t PartialBytes(const MlaProblem& p) {
  ScratchCursor cursor(nullptr);
  TakeState(p, cursor);
  return cursor.used();
}

const char* At(const TensorView& tensor, int64_t offset) {
  return tensor.data_as<const char>() + offset * SizeBytes(tensor.dtype());
}

class CpuMla final : public MlaExecutor {
 public:
  explicit CpuMla(const MlaKernels& kernels) : kernels_(kernels) {}

  void Plan(const MlaProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream) override {
    problem_ = problem;
    num_lanes_ = NumThreads();
    const size_t lanes_bytes = static_cast<size_t>(num_lanes_) * LaneBytes(problem);
    // A workspace that cannot hold every partial result gets a plan with fewer splits.
    const size_t room = workspace.max_bytes() - std::min(workspace.max_bytes(), lanes_bytes);
    const int64_t max_partials =
        std::min(MaxPartials(num_lanes_), static_cast<int64_t>(room / PartialBytes(problem)));
    PlanAttention({.q_len = tables.q_len,
                   .kv_len = tables.kv_len,
                   .num_kv_heads = 1,
                   .group_size = problem.num_heads,
                   .causal = problem.causal,
                   .window_left = problem.window_left},
                  {.rows_tile = kMlaRowsTile,
                   .kv_tile = kMlaKvTile,
                   .num_lanes = num_lanes_,
                   .fixed_kv_chunk = problem.fixed_split_size,
                   .max_partials = max_partials},
                  plan_);
    bytes_ = lanes_bytes + static_cast<size_t>(plan_.num_partials) * PartialBytes(problem);
    workspace.Reserve(bytes_);
    workspace_ = &workspace;
    requests_.resize(tables.kv_len.size());
    for (size_t b = 0; b < requests_.size(); ++b) {
      requests_[b] = {tables.q_begin[b], tables.kv_begin[b], tables.kv_len[b] - tables.q_len[b]};
    }
    pages_ = tables.pages;
    pages_stride_ = tables.pages_stride;
  }

  void Run(const MlaTensors& tensors, Stream) const override {
    // Another plan may have made the workspace grow: it is asked each time where it is.
    char* const block = static_cast<char*>(workspace_->Reserve(bytes_));
    const MlaTask common = CommonTask(tensors);
    const auto num_pieces = static_cast<int64_t>(plan_.work.size());
    std::atomic<int64_t> next{0};
    const auto work = [&](Lane lane) {
      if (lane.index >= num_lanes_) return;  // more threads than when planned
      for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < num_pieces;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        RunPiece(tensors, common, plan_.work[static_cast<size_t>(i)], block, lane.index);
      }
    };
    if (num_pieces <= 1) {
      work({0, 1});
    } else {
      ForEachLane(work);
    }
    ParallelFor(static_cast<int64_t>(plan_.merges.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const AttentionMerge& m = plan_.merges[static_cast<size_t>(i)];
        MlaTask task = TaskOf(tensors, common, m.request);
        task.row_begin = m.row_begin;
        task.row_end = m.row_end;
        kernels_.merge(task, PartialAt(block, m.first_partial),
                       static_cast<int64_t>(PartialBytes(problem_) / sizeof(float)),
                       m.num_partials);
      }
    });
  }

 private:
  struct Request {
    int64_t q_begin;
    int64_t page_begin;
    int64_t position;
  };

  void RunPiece(const MlaTensors& tensors, const MlaTask& common, const AttentionWork& w,
                char* block, int lane) const {
    MlaTask task = TaskOf(tensors, common, w.request);
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

  /// What is the same for all requests.
  MlaTask CommonTask(const MlaTensors& t) const {
    MlaTask task{};
    task.problem = &problem_;
    task.q_nope_stride_token = t.q_nope.stride(0);
    task.q_nope_stride_head = t.q_nope.stride(1);
    task.ckv = At(t.cache.ckv, 0);
    task.ckv_stride_page = t.cache.ckv.stride(0);
    task.ckv_stride_token = t.cache.ckv.stride(1);
    task.ckv_scale = t.cache.ckv_scale;
    task.kpe_scale = t.cache.kpe_scale;
    if (problem_.head_dim_kpe > 0) {
      task.q_pe_stride_token = t.q_pe.stride(0);
      task.q_pe_stride_head = t.q_pe.stride(1);
      task.kpe = At(t.cache.kpe, 0);
      task.kpe_stride_page = t.cache.kpe.stride(0);
      task.kpe_stride_token = t.cache.kpe.stride(1);
    }
    if (const TensorView& scales = t.cache.ckv_scales; scales.defined()) {
      task.ckv_scales = scales.data_as<const float>();
      task.scales_stride_page = scales.stride(0);
      task.scales_stride_token = scales.stride(1);
      task.scales_stride_block = scales.stride(2);
      task.scales_block = problem_.head_dim_ckv / static_cast<int32_t>(scales.shape(2));
    }
    task.out_stride_token = t.out.stride(0);
    task.out_stride_head = t.out.stride(1);
    if (t.lse.defined()) {
      task.lse_stride_token = t.lse.stride(0);
      task.lse_stride_head = t.lse.stride(1);
    }
    return task;
  }

  MlaTask TaskOf(const MlaTensors& t, const MlaTask& common, int32_t request) const {
    const Request& r = requests_[static_cast<size_t>(request)];
    MlaTask task = common;
    task.q_nope = At(t.q_nope, r.q_begin * t.q_nope.stride(0));
    if (problem_.head_dim_kpe > 0) task.q_pe = At(t.q_pe, r.q_begin * t.q_pe.stride(0));
    task.out = const_cast<char*>(At(t.out, r.q_begin * t.out.stride(0)));
    if (t.lse.defined()) task.lse = t.lse.data_as<float>() + r.q_begin * t.lse.stride(0);
    task.pages = pages_ + r.page_begin * pages_stride_;
    task.pages_stride = pages_stride_;
    task.position = r.position;
    return task;
  }

  const MlaKernels& kernels_;
  MlaProblem problem_;
  AttentionPlan plan_;
  std::vector<Request> requests_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
  int num_lanes_ = 1;
  Workspace* workspace_ = nullptr;
  size_t bytes_ = 0;
};

bool IsFloat(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

}  // namespace

bool AcceptsMla(const MlaProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (!IsFloat(problem.dtype_q)) return Refuse(why, "dtype_q must be f32, f16 or bf16");
  const DType kv = problem.dtype_kv;
  if (!IsFloat(kv) && kv != DType::kE4M3 && kv != DType::kE5M2 && kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(problem.dtype_out)) return Refuse(why, "dtype_out must be f32, f16 or bf16");
  return true;
}

size_t MlaWorkspaceBytes(const MlaProblem& problem, int64_t, int64_t max_tokens) {
  if (max_tokens == 0) return 0;
  const int num_lanes = NumThreads();
  return static_cast<size_t>(num_lanes) * LaneBytes(problem) +
         static_cast<size_t>(MaxPartials(num_lanes)) * PartialBytes(problem);
}

std::unique_ptr<MlaExecutor> MakeMla(const MlaKernels& kernels) {
  return std::make_unique<CpuMla>(kernels);
}

}  // namespace flashinfer::cpu
