// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU: what its pieces are made of.
#include "backends/cpu/attention.h"

#include <cmath>

#include "backends/cpu/attention_tasks.h"
#include "backends/cpu/planned_pieces.h"
#include "backends/cpu/scratch.h"
#include "core/check.h"
#include "flashinfer/cpu.h"

namespace flashinfer::cpu {
namespace {

/// Keys that are worth a lane of their own.
constexpr int64_t kKeysPerLane = 128;

struct AttentionPieces {
  using Problem = AttentionProblem;
  using Task = AttentionTask;
  using Kernels = AttentionKernels;
  static constexpr int32_t kRowsTile = kAttentionRowsTile;
  static constexpr int32_t kKvTile = kAttentionKvTile;

  static AttentionState TakeState(const AttentionProblem& p, ScratchCursor& cursor) {
    AttentionState s{};
    s.o = cursor.Take<float>(kRowsTile * PaddedDim(p.head_dim_vo));
    s.m = cursor.Take<float>(kRowsTile);
    s.l = cursor.Take<float>(kRowsTile);
    return s;
  }

  static AttentionScratch TakeScratch(const AttentionProblem& p, ScratchCursor& cursor) {
    AttentionScratch s{};
    s.q = cursor.Take<float>(kRowsTile * PaddedDim(p.head_dim_qk));
    s.k = cursor.Take<float>(kKvTile * p.head_dim_qk);
    s.v = cursor.Take<float>(kKvTile * PaddedDim(p.head_dim_vo));
    s.scores = cursor.Take<float>(kRowsTile * kKvTile);
    s.pairs = cursor.Take<float>(kRowsTile * kKvTile / 2);
    s.alpha = cursor.Take<float>(kRowsTile);
    s.state = TakeState(p, cursor);
    if (p.fixed_split_size > 0) s.folded = TakeState(p, cursor);
    if (p.pos_encoding == PositionEncoding::kRopeLlama) {
      s.cos = cursor.Take<float>(kKvTile * PaddedDim(p.head_dim_qk / 2));
      s.sin = cursor.Take<float>(kKvTile * PaddedDim(p.head_dim_qk / 2));
      s.rotated = cursor.Take<float>(kKvTile * PaddedDim(p.head_dim_qk));
    }
    return s;
  }
};

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
    const int32_t heads_per_piece = HeadsPerPiece(problem, tables, NumThreads());
    pieces_.Plan(
        problem_,
        {tables.q_len, tables.kv_len, problem.num_kv_heads / heads_per_piece,
         problem.group_size() * heads_per_piece, IsCausal(problem.mask), problem.window_left},
        workspace);
    tasks_.Plan(problem_, tables, kind_, heads_per_piece);
  }

  void Run(const AttentionTensors& tensors, Stream) const override {
    pieces_.Run(kernels_, problem_, [&](int32_t request, int32_t part) {
      return tasks_.TaskOf(tensors, request, part);
    });
  }

 private:
  const AttentionKernels& kernels_;
  AttentionKind kind_;
  AttentionProblem problem_;
  PlannedPieces<AttentionPieces> pieces_;
  AttentionTasks tasks_;
};

bool IsFloat(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kE4M3 ||
         t == DType::kE5M2;
}

}  // namespace

bool AcceptsAttention(const AttentionProblem& p, std::string* why) {
  if (p.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (p.variant != nullptr) {
    return Refuse(why, "a variant is code for CUDA devices, and nothing is compiled here");
  }
  if (!IsFloat(p.dtype_q)) return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  if (!IsFloat(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out)) return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  return true;
}

size_t AttentionWorkspaceBytes(const AttentionProblem& problem, int64_t, int64_t max_tokens) {
  return PlannedPieces<AttentionPieces>::WorkspaceBytes(problem, max_tokens);
}

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels,
                                                     AttentionKind kind) {
  return std::make_unique<CpuAttention>(kernels, kind);
}

}  // namespace flashinfer::cpu
