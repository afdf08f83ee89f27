// SPDX-License-Identifier: Apache-2.0
// What the executors of latent attention share: pieces of a batch, tables on the device, and the
// parameters of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/prefill_pieces.h"
#include "cuda/kernel.h"
#include "jit/store.h"
#include "kernels/attention/mla_spec.h"
#include "ops/mla.h"

namespace flashinfer::cuda {

/// What a block works on.
struct MlaTiles {
  int32_t rows = 16;
  int32_t kv = 32;
  int32_t ckv_columns = 512;
};

template <class Spec>
MlaTiles TilesOf(const Spec& spec) {
  return {MlaRows(spec), spec.kv_tile, spec.ckv_columns};
}

/// What decides the tiles of a problem.
kernels::MlaShape MlaShapeOf(const MlaProblem& problem, const kernels::MlaBatch& batch);

/// Workspace of a plan for any batch, on the largest device.
size_t MlaWorkspaceBytes(const MlaProblem& problem, const MlaTiles& tiles);

RowAccess AccessOf(const MlaTensors& tensors);

/// Puts into a spec what Run() alone sees.
template <class Spec>
void SetTensors(const MlaTensors& t, Spec& spec) {
  SetAccess(AccessOf(t), spec);
  const TensorView& scales = t.cache.ckv_scales;
  if (scales.defined()) spec = WithScales(spec, static_cast<int32_t>(scales.shape(2)));
}

class TiledMla : public MlaExecutor {
 public:
  void Plan(const MlaProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream stream) final;
  void Run(const MlaTensors& tensors, Stream stream) const final;
  void PlanOnDevice(const MlaProblem& problem, const AttentionTables& tables,
                    const DeviceLengths& lengths, Workspace& workspace, Stream stream) final;
  void Replan(Stream stream) const final;

 protected:
  /// Gets the kernel of a problem ready.
  virtual const Kernel& Prepare(const MlaProblem& problem, const kernels::MlaBatch& batch,
                                Device device, MlaTiles& tiles) = 0;
  /// That kernel, or one of the same tiles for what only Run() sees.
  virtual const Kernel& KernelFor(const MlaTensors& tensors) const = 0;

  Device device() const { return device_; }

 private:
  /// Keeps what a plan is for, and gets its kernel ready.
  const Kernel& Keep(const MlaProblem& problem, const AttentionTables& tables);
  PieceRows rows() const;
  kernels::PrefillParams AttentionParamsOf(const MlaTensors& t) const;
  kernels::MlaParams ParamsOf(const MlaTensors& t) const;

  MlaProblem problem_;
  MlaTiles tiles_;
  PrefillPieces pieces_;
  Device device_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
};

/// With the kernels of one family.
template <class Spec, Spec (*SpecOf)(const MlaProblem&, const kernels::MlaBatch&)>
class MlaOf final : public TiledMla {
 private:
  const Kernel& Prepare(const MlaProblem& problem, const kernels::MlaBatch& batch, Device device,
                        MlaTiles& tiles) override {
    spec_ = SpecOf(problem, batch);
    tiles = TilesOf(spec_);
    kernel_ = &jit::GetKernel(spec_, device);
    return *kernel_;
  }

  const Kernel& KernelFor(const MlaTensors& t) const override {
    Spec spec = spec_;
    SetTensors(t, spec);
    return spec == spec_ ? *kernel_ : jit::GetKernel(spec, device());
  }

  Spec spec_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace flashinfer::cuda
