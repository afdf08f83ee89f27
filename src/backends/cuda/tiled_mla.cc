// SPDX-License-Identifier: Apache-2.0
// Plans latent attention, lays out its tables, and fills the parameters of a call.
#include "backends/cuda/tiled_mla.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/problem.h"
#include "cuda/launch.h"

namespace flashinfer::cuda {
namespace {

/// What decides the tiles: with fixed splits nothing may depend on the batch. A plan on the device
/// is for any lengths, of so many requests.
kernels::MlaBatch BatchOf(const MlaProblem& p, const AttentionTables& tables) {
  if (p.fixed_split_size > 0) return {p.num_heads, 0};
  const int64_t requests = std::max<int64_t>(1, tables.num_requests());
  return {tables.num_tokens() * p.num_heads / requests, requests};
}

PrefillGrid GridOf(const MlaProblem& p, const MlaTiles& tiles) {
  return {.rows_tile = tiles.rows,
          .kv_tile = tiles.kv,
          .num_tiles = 1,
          .partial_bytes = static_cast<size_t>(tiles.rows * (tiles.ckv_columns + 2)) * 4,
          .fixed_kv_chunk = p.fixed_split_size};
}

/// Bytes to which rows of a tensor are aligned, up to 16.
int32_t AccessBytes(const TensorView& t) {
  if (!t.defined()) return 16;
  const auto element = static_cast<int32_t>(SizeBytes(t.dtype()));
  VectorSize size(16 / element);
  size.Pointer(t.data(), t.dtype()).Count(t.stride(0)).Count(t.stride(1));
  return size.value() * element;
}

}  // namespace

kernels::MlaShape MlaShapeOf(const MlaProblem& p, const kernels::MlaBatch& batch) {
  return {.dtype_q = p.dtype_q,
          .dtype_kv = p.dtype_kv,
          .dtype_out = p.dtype_out,
          .head_dim_ckv = p.head_dim_ckv,
          .head_dim_kpe = p.head_dim_kpe,
          .batch = batch,
          .smem_bytes = BlockSmemBytes(p.arch),
          .soft_cap = p.logits_soft_cap > 0};
}

size_t MlaWorkspaceBytes(const MlaProblem& problem, const MlaTiles& tiles) {
  return PrefillPartialBytes(GridOf(problem, tiles));
}

RowAccess AccessOf(const MlaTensors& t) {
  return {.q = std::min(AccessBytes(t.q_nope), AccessBytes(t.q_pe)),
          .kv = std::min(AccessBytes(t.cache.ckv), AccessBytes(t.cache.kpe)),
          .out = AccessBytes(t.out)};
}

const Kernel& TiledMla::Keep(const MlaProblem& problem, const AttentionTables& tables) {
  problem_ = problem;
  device_ = tables.device;
  pages_ = tables.pages;
  pages_stride_ = tables.pages_stride;
  return Prepare(problem, BatchOf(problem, tables), device_, tiles_);
}

PieceRows TiledMla::rows() const {
  return {problem_.num_heads, problem_.causal, problem_.window_left};
}

void TiledMla::Plan(const MlaProblem& problem, const AttentionTables& tables, Workspace& workspace,
                    Stream stream) {
  const Kernel& kernel = Keep(problem, tables);
  pieces_.Plan(tables, rows(), GridOf(problem_, tiles_), kernel, workspace);
  pieces_.Upload(device_, StreamOn(device_, stream));
}

void TiledMla::PlanOnDevice(const MlaProblem& problem, const AttentionTables& tables,
                            const DeviceLengths& lengths, Workspace& workspace, Stream stream) {
  CheckDeviceLengths(lengths, problem.num_heads, problem.fixed_split_size);
  const Kernel& kernel = Keep(problem, tables);
  pieces_.PlanOnDevice(lengths, rows(), GridOf(problem_, tiles_), kernel, workspace);
  pieces_.Upload(device_, StreamOn(device_, stream));
}

void TiledMla::Replan(Stream stream) const { pieces_.Replan(StreamOn(device_, stream)); }

void TiledMla::Run(const MlaTensors& t, Stream stream) const {
  if (pieces_.num_pieces() == 0) return;
  const kernels::MlaParams params = ParamsOf(t);
  Launch(KernelFor(t), {.grid_x = pieces_.num_pieces(), .overlaps_previous = true}, params,
         StreamOn(device_, stream));
}

kernels::PrefillParams TiledMla::AttentionParamsOf(const MlaTensors& t) const {
  const MlaProblem& p = problem_;
  const MlaCache& cache = t.cache;
  const bool has_lse = t.lse.defined();
  const bool has_kpe = p.head_dim_kpe > 0;
  kernels::PrefillParams a{};
  a.q = t.q_nope.data();
  a.k = cache.ckv.data();
  a.v = has_kpe ? cache.kpe.data() : nullptr;
  a.out = t.out.data();
  a.lse = has_lse ? t.lse.data_as<float>() : nullptr;
  a.pages = pages_;
  pieces_.SetTables(a, tiles_.ckv_columns);
  a.q_stride_token = t.q_nope.stride(0);
  a.q_stride_head = t.q_nope.stride(1);
  a.out_stride_token = t.out.stride(0);
  a.out_stride_head = t.out.stride(1);
  a.lse_stride_token = has_lse ? t.lse.stride(0) : 0;
  a.lse_stride_head = has_lse ? t.lse.stride(1) : 0;
  a.pages_stride = pages_stride_;
  a.k_strides = {cache.ckv.stride(0), cache.ckv.stride(1), 0};
  if (has_kpe) a.v_strides = {cache.kpe.stride(0), cache.kpe.stride(1), 0};
  a.page_size = kernels::MakeDivisor(static_cast<uint32_t>(p.page_size));
  a.group_size = kernels::MakeDivisor(static_cast<uint32_t>(p.num_heads));
  a.head_dim_qk = p.head_dim_ckv;
  a.head_dim_vo = p.head_dim_ckv;
  a.window_left = p.window_left;
  a.sm_scale = std::abs(p.sm_scale) * cache.ckv_scale;
  a.v_scale = cache.ckv_scale;
  a.soft_cap = p.logits_soft_cap;
  a.causal = p.causal;
  return a;
}

kernels::MlaParams TiledMla::ParamsOf(const MlaTensors& t) const {
  const bool has_kpe = problem_.head_dim_kpe > 0;
  const TensorView& scales = t.cache.ckv_scales;
  const bool has_scales = scales.defined();
  return {.attention = AttentionParamsOf(t),
          .q_pe = has_kpe ? t.q_pe.data() : nullptr,
          .ckv_scales = has_scales ? scales.data_as<const float>() : nullptr,
          .q_pe_stride_token = has_kpe ? t.q_pe.stride(0) : 0,
          .q_pe_stride_head = has_kpe ? t.q_pe.stride(1) : 0,
          .scales_stride_page = has_scales ? scales.stride(0) : 0,
          .scales_stride_token = has_scales ? scales.stride(1) : 0,
          .scales_stride_block = has_scales ? scales.stride(2) : 0,
          .head_dim_kpe = problem_.head_dim_kpe,
          .kpe_over_ckv = t.cache.kpe_scale / t.cache.ckv_scale,
          .q_sign = problem_.sm_scale > 0 ? 1.0f : -1.0f};
}

}  // namespace flashinfer::cuda
