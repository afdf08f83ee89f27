// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: a plan in device memory, and one launch a call.
#include "backends/cuda/prefill_mma.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "backends/cuda/tiled_prefill.h"

namespace flashinfer::cuda {
namespace {

using kernels::PrefillSpec;

PrefillSpec SpecOf(const AttentionProblem& p, int64_t rows) {
  PrefillSpec spec = kernels::MakePrefillSpec(PrefillShapeOf(p, rows));
  SetScores(p, spec);
  // A user's code takes registers of its own: with two tiles of rows it would spill.
  if (p.variant != nullptr) spec.row_tiles = 1;
  return spec;
}

class PrefillMma final : public TiledPrefill {
 private:
  const Kernel& Prepare(const AttentionProblem& problem, int64_t rows, Device device,
                        PrefillTiles& tiles) override {
    spec_ = SpecOf(problem, rows);
    spec_.row_scales = IsFp8(problem.dtype_q);
    tiles = TilesOf(spec_);
    kernel_ = &VariantKernel(spec_, problem.variant, device);
    return *kernel_;
  }

  const Kernel& KernelFor(const AttentionTensors& t) const override {
    PrefillSpec spec = spec_;
    SetTensors(t, spec);
    const AttentionExtras& extras = t.extras;
    if (extras.q_scales.defined() || extras.k_scales.defined() ||
        !(LogitScale(problem()) * extras.q_scale * extras.k_scale > 0)) {
      spec.row_scales = true;
    }
    return spec == spec_ ? *kernel_ : VariantKernel(spec, problem().variant, device());
  }

  PrefillSpec spec_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace

bool AcceptsPrefillMma(const AttentionProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, PrefillSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype_q) && !IsFp8(p.dtype_q)) {
    return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  }
  const DType compute = kernels::PrefillComputeDType(p.dtype_q);
  if (!IsOnArch(p.arch, MinArch(PrefillSpec{.dtype_q = p.dtype_q}), why)) return false;
  if (p.dtype_kv != compute && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why,
                  "dtype_kv must be what is multiplied (bf16 for bf16 queries, else f16), "
                  "e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out) && !IsFp8(p.dtype_out)) {
    return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (!AcceptsVariant(p, why)) return false;
  if (kernels::SmemBytes(SpecOf(p, 1)) > BlockSmemBytes(p.arch)) {
    return Refuse(why, "head_dim_qk needs more shared memory than this architecture has");
  }
  if (int64_t{p.num_kv_heads} * 4 > 65535) return Refuse(why, "num_kv_heads must be below 16384");
  return true;
}

std::unique_ptr<AttentionExecutor> MakePrefillMma() { return std::make_unique<PrefillMma>(); }

size_t PrefillMmaWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  size_t most = 0;
  for (int64_t rows : {1, 1024}) {
    most = std::max(most, PrefillWorkspaceBytes(problem, TilesOf(SpecOf(problem, rows))));
  }
  return most;
}

}  // namespace flashinfer::cuda
