// SPDX-License-Identifier: Apache-2.0
// What the executors of prefill share: pieces of a batch, tables on the device, and the parameters
// of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/attention_variant.h"
#include "backends/cuda/prefill_pieces.h"
#include "cuda/kernel.h"
#include "kernels/attention/prefill_spec.h"
#include "ops/attention.h"

namespace flashinfer::cuda {

/// What a block works on.
struct PrefillTiles {
  int32_t rows = 64;
  int32_t kv = 64;
  int32_t vo_columns = 128;
  int32_t vo_slices = 1;  ///< blocks of a KV head
};

template <class Spec>
PrefillTiles TilesOf(const Spec& spec) {
  return {PrefillRows(spec), spec.kv_tile, spec.vo_columns, spec.vo_slices};
}

/// What decides the tiles of a problem whose requests have so many rows on average.
kernels::PrefillShape PrefillShapeOf(const AttentionProblem& problem, int64_t rows);

/// Workspace of a plan for any batch, on the largest device.
size_t PrefillWorkspaceBytes(const AttentionProblem& problem, const PrefillTiles& tiles);

/// Puts into a spec what the problem does to scores.
template <class Spec>
void SetScores(const AttentionProblem& p, Spec& spec) {
  spec.mask = p.mask == MaskMode::kCustom      ? kernels::kMaskCustom
              : p.mask == MaskMode::kMultiItem ? kernels::kMaskMultiItem
                                               : kernels::kMaskPlain;
  spec.has_bias = p.has_bias;
  spec.alibi = p.pos_encoding == PositionEncoding::kAlibi;
  spec.rope = p.pos_encoding == PositionEncoding::kRopeLlama;
  spec.soft_cap = p.logits_soft_cap > 0;
}

RowAccess AccessOf(const AttentionTensors& tensors);

/// Puts into a spec what Run() alone sees.
template <class Spec>
void SetTensors(const AttentionTensors& t, Spec& spec) {
  SetAccess(AccessOf(t), spec);
  if (spec.has_bias) spec.dtype_bias = t.extras.bias.dtype();
}

class TiledPrefill : public AttentionExecutor {
 public:
  void Plan(const AttentionProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream stream) final;
  void Run(const AttentionTensors& tensors, Stream stream) const final;
  void PlanOnDevice(const AttentionProblem& problem, const AttentionTables& tables,
                    const DeviceLengths& lengths, Workspace& workspace, Stream stream) final;
  void Replan(Stream stream) const final;

 protected:
  /// Gets the kernel of a problem ready, whose requests have so many rows on average.
  virtual const Kernel& Prepare(const AttentionProblem& problem, int64_t rows, Device device,
                                PrefillTiles& tiles) = 0;
  /// That kernel, or one of the same tiles for what only Run() sees.
  virtual const Kernel& KernelFor(const AttentionTensors& tensors) const = 0;

  const AttentionProblem& problem() const { return problem_; }
  Device device() const { return device_; }

 private:
  int64_t num_tiles() const { return int64_t{problem_.num_kv_heads} * tiles_.vo_slices; }
  /// Keeps what a plan is for, and gets its kernel ready.
  const Kernel& Keep(const AttentionProblem& problem, const AttentionTables& tables);
  PieceRows rows() const;
  /// The plan, and what the problem has for the device.
  void Upload(Stream stream);
  kernels::PrefillParams ParamsOf(const AttentionTensors& t) const;

  AttentionProblem problem_;
  PrefillTiles tiles_;
  MaskTables mask_;
  PrefillPieces pieces_;
  size_t slopes_at_ = 0;
  size_t turns_at_ = 0;
  size_t lengths_at_ = 0;  ///< for a variant
  Device device_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
};

}  // namespace flashinfer::cuda
