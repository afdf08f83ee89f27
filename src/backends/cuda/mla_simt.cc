// SPDX-License-Identifier: Apache-2.0
// Latent attention on CUDA cores: a plan in device memory, and one launch a call.
#include "backends/cuda/mla_simt.h"

#include "backends/cuda/problem.h"
#include "backends/cuda/tiled_mla.h"
#include "kernels/attention/mla_simt_spec.h"

namespace flashinfer::cuda {
namespace {

using kernels::MlaSimtSpec;

/// Whatever the requests are: a block has 16 rows.
MlaSimtSpec SpecOf(const MlaProblem& p, const kernels::MlaBatch& = {}) {
  return kernels::MakeMlaSimtSpec(MlaShapeOf(p, {}));
}

}  // namespace

bool AcceptsMlaSimt(const MlaProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, MlaSimtSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype_q)) return Refuse(why, "dtype_q must be f32, f16 or bf16");
  if (!IsFloat(p.dtype_kv) && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out)) return Refuse(why, "dtype_out must be f32, f16 or bf16");
  if (kernels::SmemBytes(SpecOf(p)) > BlockSmemBytes(p.arch)) {
    return Refuse(
        why, "head_dim_ckv + head_dim_kpe needs more shared memory than this architecture has");
  }
  return true;
}

std::unique_ptr<MlaExecutor> MakeMlaSimt() {
  return std::make_unique<MlaOf<MlaSimtSpec, SpecOf>>();
}

size_t MlaSimtWorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  return MlaWorkspaceBytes(problem, TilesOf(SpecOf(problem)));
}

}  // namespace flashinfer::cuda
