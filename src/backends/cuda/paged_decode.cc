// SPDX-License-Identifier: Apache-2.0
// Plans decode, lays out its tables, and fills the parameters of a call.
#include "backends/cuda/paged_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/attention_variant.h"
#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "jit/store.h"
#include "kernels/attention/decode_plan_walk.h"

namespace flashinfer::cuda {
namespace {

constexpr size_t kAlignment = 256;

constexpr size_t Aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Partial results of a plan that is not of fixed splits: a slot cuts at its two ends.
constexpr int64_t MaxPartials(int64_t num_slots) { return 2 * num_slots + 2; }

/// Maxima and sums of so many rows; outputs follow.
size_t MlBytes(int64_t num_rows) { return Aligned(static_cast<size_t>(num_rows) * 8); }

size_t PartialBytes(int64_t num_rows, int64_t num_columns) {
  return MlBytes(num_rows) + Aligned(static_cast<size_t>(num_rows * num_columns) * 4);
}

void CheckLengths(const AttentionTables& tables) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  for (size_t b = 0; b < tables.kv_len.size(); ++b) {
    FLASHINFER_CHECK(tables.kv_len[b] <= kMost && tables.kv_begin[b] <= kMost,
                     "indptr[{}]: request has {} keys from {} on, at most {} are accepted", b,
                     tables.kv_len[b], tables.kv_begin[b], kMost);
  }
}

/// Blocks of a tile: such that all tiles' blocks fill the device, once or a few times.
int64_t NumSlots(int64_t resident, int64_t num_tiles) {
  int64_t best = 1;
  double best_share = 0;
  for (int64_t waves = 1; waves <= 4; ++waves) {
    const int64_t slots = waves * resident / num_tiles;
    const double share =
        static_cast<double>(slots * num_tiles) / static_cast<double>(waves * resident);
    if (slots > 0 && share > best_share + 0.04) {
      best = slots;
      best_share = share;
    }
  }
  return best;
}

kernels::DecodeHeadValues ValuesOf(const TensorView& x) {
  if (!x.defined()) return {nullptr, 0};
  return {x.data_as<const float>(), x.stride(0)};
}

/// Whether queries can be loaded in 4 bytes and outputs stored in 4 elements.
bool IsPacked(const AttentionTensors& t, const AttentionProblem& p) {
  const VectorSize q =
      VectorSize(4).Pointer(t.q.data(), p.dtype_q).Count(t.q.stride(0)).Count(t.q.stride(1));
  const VectorSize out = VectorSize(4)
                             .Pointer(t.out.data(), p.dtype_out)
                             .Count(t.out.stride(0))
                             .Count(t.out.stride(1));
  return q.value() * SizeBytes(p.dtype_q) >= 4 && out.value() == 4;
}

}  // namespace

size_t DecodePartialBytes(const AttentionProblem& problem, const DecodeGrid& grid) {
  const int64_t num_tiles = int64_t{problem.num_kv_heads} * grid.row_tiles;
  // The largest devices have 192 multiprocessors; 16 blocks of a kind fit on each at most.
  const int64_t num_partials = MaxPartials(NumSlots(192 * 16, num_tiles));
  return PartialBytes(num_partials * num_tiles * grid.rows_tile, grid.num_columns);
}

bool IsWide(const PagedKvCache& cache, int64_t access_elements) {
  for (const TensorView& t : {cache.k, cache.v}) {
    int64_t last = 0;
    for (int i = 0; i < 3; ++i) last += std::max<int64_t>(0, t.shape(i) - 1) * t.stride(i);
    if (last / access_elements > std::numeric_limits<uint32_t>::max()) return true;
  }
  return false;
}

void PagedDecode::Plan(const AttentionProblem& problem, const AttentionTables& tables,
                       Workspace& workspace, Stream stream) {
  CheckLengths(tables);
  Keep(problem, tables);
  const DecodePlanLimits limits = LimitsOn(Prepare(problem, device_, grid_), workspace);
  PlanDecode({tables.kv_len, tables.kv_begin, problem_.window_left}, limits, plan_);
  // Sizes for any batch of so many requests: addresses that a graph has recorded stay valid.
  ReservePartials(std::max<int64_t>(limits.max_partials, plan_.num_partials), workspace);
  LayOut(std::max(static_cast<int64_t>(plan_.pieces.size()), num_requests_ + num_slots_),
         plan_.num_merges);
  Upload(StreamOn(device_, stream));
  UploadLengths(tables, StreamOn(device_, stream));
}

void PagedDecode::PlanOnDevice(const AttentionProblem& problem, const AttentionTables& tables,
                               const DeviceLengths& lengths, Workspace& workspace, Stream) {
  FLASHINFER_CHECK(lengths.max_requests <= kernels::kMaxDevicePlanRequests,
                   "last_page_len: has {} requests, a plan on the device takes at most {}",
                   lengths.max_requests, kernels::kMaxDevicePlanRequests);
  FLASHINFER_CHECK(problem.variant == nullptr, "variant: is {}, a plan on the device takes none",
                   problem.variant->name());
  Keep(problem, tables);
  const DecodePlanLimits limits = LimitsOn(Prepare(problem, device_, grid_), workspace);
  planner_ = &jit::GetKernel(kernels::MakeDecodePlanSpec(lengths.max_requests), device_);
  const int64_t max_pieces = kernels::MaxDecodePieces(
      limits, num_requests_, int64_t{lengths.max_pages} * problem.page_size);
  const bool is_fixed = limits.fixed_kv_chunk > 0;
  ReservePartials(is_fixed ? max_pieces : limits.max_partials, workspace);
  LayOut(max_pieces, is_fixed ? num_requests_ : num_slots_);
  auto* starts = reinterpret_cast<kernels::DecodeSlotStart*>(block_ + planner_at_);
  auto* cuts = reinterpret_cast<int32_t*>(starts + num_slots_);
  planner_params_ = {.indptr = lengths.indptr,
                     .last_page_len = lengths.last_page_len,
                     .indptr_stride = lengths.indptr_stride,
                     .last_page_len_stride = lengths.last_page_len_stride,
                     .slots = reinterpret_cast<kernels::DecodeSlot*>(block_),
                     .memory = {.pieces = reinterpret_cast<DecodePiece*>(block_ + pieces_at_),
                                .slot_begin = cuts + num_slots_,
                                .slot_starts = starts,
                                .cuts = cuts,
                                .sums = nullptr,
                                .num_pieces = nullptr},
                     .limits = limits,
                     .num_requests = lengths.max_requests,
                     .max_pages = lengths.max_pages,
                     .page_size = problem.page_size,
                     .window_left = problem.window_left};
}

void PagedDecode::Replan(Stream given) const {
  if (is_empty()) return;
  const Stream stream = StreamOn(device_, given);
  Launch(*planner_, {}, planner_params_, stream);
  // Counters begin at 0. And kernels of decode read the plan before they wait for the kernel ahead
  // of them: what lies between must not be a kernel.
  FillBytes(block_ + counters_at_, 0, planner_at_ - counters_at_, stream);
}

void PagedDecode::Keep(const AttentionProblem& problem, const AttentionTables& tables) {
  problem_ = problem;
  if (problem.sm_scale == 0) {
    problem_.sm_scale = 1.0f / std::sqrt(static_cast<float>(problem.head_dim_qk));
  }
  num_requests_ = tables.num_requests();
  pages_ = problem.page_size == kNoPages ? nullptr : tables.pages;
  pages_stride_ = tables.pages_stride;
  device_ = tables.device;
}

DecodePlanLimits PagedDecode::LimitsOn(const Kernel& kernel, const Workspace& workspace) {
  const int64_t resident = int64_t{kernel.device->num_sms} * std::max(1, kernel.blocks_per_sm);
  num_slots_ = NumSlots(resident, num_tiles());
  const int64_t wave = std::max<int64_t>(1, kernel.device->num_sms / num_tiles());
  DecodePlanLimits limits{.num_slots = static_cast<int32_t>(num_slots_),
                          .slots_per_wave = static_cast<int32_t>(wave),
                          .kv_tile = grid_.kv_tile,
                          .fixed_kv_chunk = problem_.fixed_split_size,
                          .max_partials = MaxPartials(num_slots_)};
  // A workspace that cannot hold partial results gets a plan without.
  const int64_t num_rows = limits.max_partials * num_tiles() * grid_.rows_tile;
  if (PartialBytes(num_rows, grid_.num_columns) > workspace.max_bytes()) limits.max_partials = 0;
  return limits;
}

void PagedDecode::ReservePartials(int64_t num_partials, Workspace& workspace) {
  const int64_t num_rows = num_partials * num_tiles() * grid_.rows_tile;
  partial_o_at_ = MlBytes(num_rows);
  partial_bytes_ = PartialBytes(num_rows, grid_.num_columns);
  workspace.Reserve(partial_bytes_);
  workspace_ = &workspace;
}

void PagedDecode::LayOut(int64_t num_pieces, int64_t num_merges) {
  const int64_t num_counters = std::max(num_slots_, num_merges) * num_tiles();
  pieces_at_ = Aligned(static_cast<size_t>(num_slots_) * sizeof(kernels::DecodeSlot));
  counters_at_ = pieces_at_ + Aligned(static_cast<size_t>(num_pieces) * sizeof(DecodePiece));
  planner_at_ = counters_at_ + Aligned(static_cast<size_t>(num_counters) * 4);
  // Starts of slots, cuts, begins of slots.
  const size_t bytes = planner_at_ + static_cast<size_t>(num_slots_ + 1) * 16;
  if (memory_ == nullptr || memory_->device() != device_) {
    memory_ = std::make_unique<Workspace>(device_);
  }
  block_ = static_cast<char*>(memory_->Reserve(bytes));
}

void PagedDecode::Upload(Stream stream) {
  staging_.assign(planner_at_, 0);  // counters begin at 0
  auto* slots = reinterpret_cast<kernels::DecodeSlot*>(staging_.data());
  for (int32_t s = 0; s < num_slots_; ++s) {
    slots[s] = kernels::DecodeSlotOf(plan_.pieces.data(), plan_.slot_begin.data(), s);
  }
  std::copy(plan_.pieces.begin(), plan_.pieces.end(),
            reinterpret_cast<DecodePiece*>(staging_.data() + pieces_at_));
  CopyToDevice(block_, staging_.data(), staging_.size(), stream);
}

void PagedDecode::UploadLengths(const AttentionTables& tables, Stream stream) {
  if (problem_.variant == nullptr) return;
  lengths_staging_ = VariantLengths(tables);
  if (lengths_memory_ == nullptr || lengths_memory_->device() != device_) {
    lengths_memory_ = std::make_unique<Workspace>(device_);
  }
  const size_t bytes = lengths_staging_.size() * sizeof(int32_t);
  lengths_ = static_cast<int32_t*>(lengths_memory_->Reserve(bytes));
  CopyToDevice(lengths_, lengths_staging_.data(), bytes, stream);
}

void PagedDecode::LaunchOn(const Kernel& kernel, const AttentionTensors& tensors,
                           int64_t access_elements, Stream stream) const {
  const LaunchShape shape{.grid_x = num_slots_, .grid_y = num_tiles(), .overlaps_previous = true};
  const kernels::DecodeParams params = ParamsOf(tensors, access_elements);
  if (problem_.variant == nullptr) {
    Launch(kernel, shape, params, StreamOn(device_, stream));
    return;
  }
  Launch(kernel, shape,
         WithVariant(params, problem_, lengths_, num_requests_, tensors.extras.variant_values),
         StreamOn(device_, stream));
}

kernels::DecodeParams PagedDecode::ParamsOf(const AttentionTensors& t,
                                            int64_t access_elements) const {
  const AttentionProblem& p = problem_;
  const PageStrides k = StridesOf(t.cache.k, t.cache.layout);
  const PageStrides v = StridesOf(t.cache.v, t.cache.layout);
  const AttentionExtras& extras = t.extras;
  const bool has_lse = t.lse.defined();
  // Another plan may have made the workspace grow: it is asked each time where it is.
  char* partials = static_cast<char*>(workspace_->Reserve(partial_bytes_));
  return {.q = t.q.data(),
          .k = t.cache.k.data(),
          .v = t.cache.v.data(),
          .out = t.out.data(),
          .lse = has_lse ? t.lse.data_as<float>() : nullptr,
          .pages = pages_,
          .pieces = reinterpret_cast<const DecodePiece*>(block_ + pieces_at_),
          .slots = reinterpret_cast<const kernels::DecodeSlot*>(block_),
          .partial_o = reinterpret_cast<float*>(partials + partial_o_at_),
          .partial_ml = reinterpret_cast<float*>(partials),
          .counters = reinterpret_cast<uint32_t*>(block_ + counters_at_),
          .sinks = ValuesOf(p.has_sinks ? extras.sinks : TensorView()),
          .q_scales = ValuesOf(extras.q_scales),
          .k_scales = ValuesOf(extras.k_scales),
          .v_scales = ValuesOf(extras.v_scales),
          .q_stride_request = t.q.stride(0),
          .q_stride_head = t.q.stride(1),
          .out_stride_request = t.out.stride(0),
          .out_stride_head = t.out.stride(1),
          .lse_stride_request = has_lse ? t.lse.stride(0) : 0,
          .lse_stride_head = has_lse ? t.lse.stride(1) : 0,
          .pages_stride = pages_stride_,
          .k_strides = {k.page / access_elements, k.token / access_elements, k.head},
          .v_strides = {v.page / access_elements, v.token / access_elements, v.head},
          .page_size = kernels::MakeDivisor(static_cast<uint32_t>(std::max(1, p.page_size))),
          .head_dim_qk = p.head_dim_qk,
          .head_dim_vo = p.head_dim_vo,
          .group_size = p.group_size(),
          .row_tiles = grid_.row_tiles,
          .sm_scale = LogitScale(p) * extras.q_scale * extras.k_scale,
          .v_scale = extras.v_scale,
          .soft_cap = p.logits_soft_cap,
          .is_packed = IsPacked(t, p) ? 1 : 0};
}

}  // namespace flashinfer::cuda
