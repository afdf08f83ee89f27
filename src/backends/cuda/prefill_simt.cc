// SPDX-License-Identifier: Apache-2.0
// Prefill on CUDA cores: a plan in device memory, and one launch a call.
#include "backends/cuda/prefill_simt.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "backends/cuda/tiled_prefill.h"
#include "kernels/attention/prefill_simt_spec.h"

namespace flashinfer::cuda {
namespace {

using kernels::PrefillSimtSpec;

PrefillSimtSpec SpecOf(const AttentionProblem& p, int64_t rows) {
  PrefillSimtSpec spec = kernels::MakePrefillSimtSpec(PrefillShapeOf(p, rows));
  SetScores(p, spec);
  return spec;
}

class PrefillSimt final : public TiledPrefill {
 private:
  const Kernel& Prepare(const AttentionProblem& problem, int64_t rows, Device device,
                        PrefillTiles& tiles) override {
    spec_ = SpecOf(problem, rows);
    tiles = TilesOf(spec_);
    kernel_ = &VariantKernel(spec_, problem.variant, device);
    return *kernel_;
  }

  const Kernel& KernelFor(const AttentionTensors& t) const override {
    PrefillSimtSpec spec = spec_;
    SetTensors(t, spec);
    return spec == spec_ ? *kernel_ : VariantKernel(spec, problem().variant, device());
  }

  PrefillSimtSpec spec_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace

bool AcceptsPrefillSimt(const AttentionProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, PrefillSimtSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype_q) && !IsFp8(p.dtype_q)) {
    return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (!IsFloat(p.dtype_kv) && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out) && !IsFp8(p.dtype_out)) {
    return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (!AcceptsVariant(p, why)) return false;
  if (int64_t{p.num_kv_heads} * 8 > 65535) return Refuse(why, "num_kv_heads must be below 8192");
  return true;
}

std::unique_ptr<AttentionExecutor> MakePrefillSimt() { return std::make_unique<PrefillSimt>(); }

size_t PrefillSimtWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  size_t most = 0;
  for (int64_t rows : {1, 32, 1024}) {
    most = std::max(most, PrefillWorkspaceBytes(problem, TilesOf(SpecOf(problem, rows))));
  }
  return most;
}

}  // namespace flashinfer::cuda
