// SPDX-License-Identifier: Apache-2.0
// Latent attention on the CPU: what its pieces are made of.
#include "backends/cpu/mla.h"

#include <vector>

#include "backends/cpu/planned_pieces.h"
#include "backends/cpu/scratch.h"

namespace flashinfer::cpu {
namespace {

struct MlaPieces {
  using Problem = MlaProblem;
  using Task = MlaTask;
  using Kernels = MlaKernels;
  static constexpr int32_t kRowsTile = kMlaRowsTile;
  static constexpr int32_t kKvTile = kMlaKvTile;

  static AttentionState TakeState(const MlaProblem& p, ScratchCursor& cursor) {
    AttentionState s{};
    s.o = cursor.Take<float>(kRowsTile * PaddedDim(p.head_dim_ckv));
    s.m = cursor.Take<float>(kRowsTile);
    s.l = cursor.Take<float>(kRowsTile);
    return s;
  }

  static MlaScratch TakeScratch(const MlaProblem& p, ScratchCursor& cursor) {
    MlaScratch s{};
    s.q = cursor.Take<float>(int64_t{kRowsTile} * (p.head_dim_ckv + p.head_dim_kpe));
    s.k = cursor.Take<float>(kKvTile * MlaKeyStride(p));
    s.v = cursor.Take<float>(kKvTile / 2 * PaddedDim(p.head_dim_ckv));
    s.scores = cursor.Take<float>(kRowsTile * kKvTile);
    s.p = cursor.Take<float>(kRowsTile * kKvTile);
    s.alpha = cursor.Take<float>(kRowsTile);
    s.begins = cursor.Take<float>(kRowsTile);
    s.ends = cursor.Take<float>(kRowsTile);
    s.state = TakeState(p, cursor);
    if (p.fixed_split_size > 0) s.folded = TakeState(p, cursor);
    return s;
  }
};

const char* At(const TensorView& tensor, int64_t offset) {
  return tensor.data_as<const char>() + offset * SizeBytes(tensor.dtype());
}

class CpuMla final : public MlaExecutor {
 public:
  explicit CpuMla(const MlaKernels& kernels) : kernels_(kernels) {}

  void Plan(const MlaProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream) override {
    problem_ = problem;
    pieces_.Plan(problem,
                 {.q_len = tables.q_len,
                  .kv_len = tables.kv_len,
                  .num_kv_heads = 1,
                  .group_size = problem.num_heads,
                  .causal = problem.causal,
                  .window_left = problem.window_left},
                 workspace);
    requests_.resize(tables.kv_len.size());
    for (size_t b = 0; b < requests_.size(); ++b) {
      requests_[b] = {tables.q_begin[b], tables.kv_begin[b], tables.kv_len[b] - tables.q_len[b]};
    }
    pages_ = tables.pages;
    pages_stride_ = tables.pages_stride;
  }

  void Run(const MlaTensors& tensors, Stream) const override {
    const MlaTask common = CommonTask(tensors);
    pieces_.Run(kernels_, problem_,
                [&](int32_t request, int32_t) { return TaskOf(tensors, common, request); });
  }

 private:
  struct Request {
    int64_t q_begin;
    int64_t page_begin;
    int64_t position;
  };

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
  PlannedPieces<MlaPieces> pieces_;
  std::vector<Request> requests_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
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
  return PlannedPieces<MlaPieces>::WorkspaceBytes(problem, max_tokens);
}

std::unique_ptr<MlaExecutor> MakeMla(const MlaKernels& kernels) {
  return std::make_unique<CpuMla>(kernels);
}

}  // namespace flashinfer::cpu
