// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores: a plan in device memory, and one launch a call.
#include "backends/cuda/mla_mma.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "backends/cuda/tiled_mla.h"
#include "kernels/attention/mla_spec.h"

namespace flashinfer::cuda {
namespace {

using kernels::MlaSpec;

MlaSpec SpecOf(const MlaProblem& p, const kernels::MlaBatch& batch) {
  return kernels::MakeMlaSpec(MlaShapeOf(p, batch));
}

}  // namespace

bool AcceptsMlaMma(const MlaProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, MlaSpec::kMinArch, why)) return false;
  if (p.dtype_q != DType::kF16 && p.dtype_q != DType::kBF16) {
    return Refuse(why, "dtype_q must be f16 or bf16");
  }
  if (!IsOnArch(p.arch, MinArch(MlaSpec{.dtype_q = p.dtype_q}), why)) return false;
  if (p.dtype_kv != p.dtype_q && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be dtype_q, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out)) return Refuse(why, "dtype_out must be f32, f16 or bf16");
  if (kernels::SmemBytes(SpecOf(p, {1, 0})) > BlockSmemBytes(p.arch)) {
    return Refuse(
        why, "head_dim_ckv + head_dim_kpe needs more shared memory than this architecture has");
  }
  return true;
}

std::unique_ptr<MlaExecutor> MakeMlaMma() { return std::make_unique<MlaOf<MlaSpec, SpecOf>>(); }

size_t MlaMmaWorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  size_t most = 0;
  for (int64_t rows : {1, 32, 1024}) {
    for (int64_t requests : {0, 1}) {
      most = std::max(most, MlaWorkspaceBytes(problem, TilesOf(SpecOf(problem, {rows, requests}))));
    }
  }
  return most;
}

}  // namespace flashinfer::cuda
