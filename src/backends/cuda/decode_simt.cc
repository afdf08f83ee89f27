// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: a plan in the workspace, and one launch a call.
#include "backends/cuda/decode_simt.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "jit/store.h"
#include "kernels/attention/decode_spec.h"
#include "plan/decode_plan.h"

namespace flashinfer::cuda {
namespace {

constexpr size_t kAlignment = 256;

constexpr size_t Aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Offsets of what the host writes in one copy: the executor's own memory, as plans that share a
/// workspace may run in turns.
struct TableLayout {
  size_t slots;
  size_t pieces;
  size_t counters;
  size_t end;
};

TableLayout MakeTableLayout(int64_t num_slots, int64_t num_pieces, int64_t num_counters) {
  TableLayout l{};
  l.slots = 0;
  l.pieces = l.slots + Aligned(static_cast<size_t>(num_slots) * sizeof(kernels::DecodeSlot));
  l.counters = l.pieces + Aligned(static_cast<size_t>(num_pieces) * sizeof(DecodePiece));
  l.end = l.counters + Aligned(static_cast<size_t>(num_counters) * 4);
  return l;
}

/// Offsets of partial results in the workspace.
struct PartialLayout {
  size_t ml;
  size_t o;
  size_t end;
};

PartialLayout MakePartialLayout(int64_t num_rows, int64_t num_columns) {
  PartialLayout l{};
  l.ml = 0;
  l.o = l.ml + Aligned(static_cast<size_t>(num_rows) * 8);
  l.end = l.o + Aligned(static_cast<size_t>(num_rows * num_columns) * 4);
  return l;
}

/// Partial results of a plan that is not of fixed splits: a slot cuts at its two ends.
constexpr int64_t MaxPartials(int64_t num_slots) { return 2 * num_slots + 2; }

int32_t RowTiles(const AttentionProblem& p, const kernels::DecodeSpec& spec) {
  return (p.group_size() + spec.rows_tile - 1) / spec.rows_tile;
}

/// Blocks of a head: such that all heads' blocks fill the device, once or a few times.
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

kernels::DecodeSpec SpecOf(const AttentionProblem& p, int32_t access_bytes) {
  return kernels::MakeDecodeSpec({.dtype_q = p.dtype_q,
                                  .dtype_kv = p.dtype_kv,
                                  .dtype_out = p.dtype_out,
                                  .head_dim_qk = p.head_dim_qk,
                                  .head_dim_vo = p.head_dim_vo,
                                  .group_size = p.group_size(),
                                  .access_bytes = access_bytes,
                                  .soft_cap = p.logits_soft_cap > 0,
                                  .arch = p.arch});
}

/// Bytes to which every row of the cache is aligned, up to 16; fewer where queries and outputs
/// cannot be moved in as many elements, or in 4.
int32_t AccessBytes(const AttentionTensors& t, const AttentionProblem& p) {
  const auto element = static_cast<int32_t>(SizeBytes(p.dtype_kv));
  VectorSize size(16 / element);
  for (const TensorView& x : {t.cache.k, t.cache.v}) {
    size.Pointer(x.data(), p.dtype_kv).Count(x.stride(0)).Count(x.stride(1)).Count(x.stride(2));
  }
  VectorSize part(4);
  part.Pointer(t.q.data(), p.dtype_q).Pointer(t.out.data(), p.dtype_out);
  for (const TensorView& x : {t.q, t.out}) part.Count(x.stride(0)).Count(x.stride(1));
  const int32_t elements = size.Count(p.head_dim_qk).Count(p.head_dim_vo).value();
  return std::min(elements, part.value() < 4 ? part.value() : elements) * element;
}

/// Whether a cache tensor has so many accesses that 32 bits cannot count them.
bool IsWide(const PagedKvCache& cache, int32_t vector_size) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  for (const TensorView& t : {cache.k, cache.v}) {
    int64_t last = 0;
    for (int i = 0; i < 3; ++i) last += std::max<int64_t>(0, t.shape(i) - 1) * t.stride(i);
    if (last / vector_size > kMost) return true;
  }
  return false;
}

class DecodeSimt final : public AttentionExecutor {
 public:
  void Plan(const AttentionProblem& problem, const AttentionTables& tables, Workspace& workspace,
            Stream stream) override {
    problem_ = problem;
    if (problem.sm_scale == 0) {
      problem_.sm_scale = 1.0f / std::sqrt(static_cast<float>(problem.head_dim_qk));
    }
    pages_ = problem.page_size == kNoPages ? nullptr : tables.pages;
    pages_stride_ = tables.pages_stride;
    device_ = tables.device;
    CheckLengths(tables);
    // Rows of caches are aligned to 16 bytes but for odd strides and sizes, which Run() sees.
    spec_ = SpecOf(problem, 16);
    kernel_ = &jit::GetKernel(spec_, device_);
    num_tiles_ = problem.num_kv_heads * RowTiles(problem, spec_);
    PlanPieces(tables, workspace);
    Upload(tables, StreamOn(device_, stream));
  }

  void Run(const AttentionTensors& t, Stream stream) const override {
    if (plan_.pieces.empty()) return;
    const Choice choice = KernelFor(t);
    const kernels::DecodeParams params = ParamsOf(t, choice.vector_size);
    Launch(*choice.kernel, {.grid_x = num_slots_, .grid_y = num_tiles_, .overlaps_previous = true},
           params, StreamOn(device_, stream));
  }

 private:
  static void CheckLengths(const AttentionTables& tables) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
    for (size_t b = 0; b < tables.kv_len.size(); ++b) {
      FLASHINFER_CHECK(tables.kv_len[b] <= kMost && tables.kv_begin[b] <= kMost,
                       "indptr[{}]: request has {} keys from {} on, at most {} are accepted", b,
                       tables.kv_len[b], tables.kv_begin[b], kMost);
    }
  }

  void PlanPieces(const AttentionTables& tables, Workspace& workspace) {
    const int64_t resident =
        int64_t{kernel_->device->num_sms} * std::max(1, kernel_->blocks_per_sm);
    num_slots_ = NumSlots(resident, num_tiles_);
    const int64_t wave = std::max<int64_t>(1, kernel_->device->num_sms / num_tiles_);
    DecodePlanLimits limits{.num_slots = static_cast<int32_t>(num_slots_),
                            .slots_per_wave = static_cast<int32_t>(wave),
                            .kv_tile = DecodeKvTile(spec_),
                            .fixed_kv_chunk = problem_.fixed_split_size,
                            .max_partials = MaxPartials(num_slots_)};
    const int64_t rows_per_partial = num_tiles_ * spec_.rows_tile;
    // A workspace that cannot hold partial results gets a plan without.
    if (MakePartialLayout(limits.max_partials * rows_per_partial, kernels::DecodeColumns(spec_))
            .end > workspace.max_bytes()) {
      limits.max_partials = 0;
    }
    PlanDecode({tables.kv_len, tables.kv_begin, problem_.window_left}, limits, plan_);
    // Sizes for any batch of so many requests: addresses that a graph has recorded stay valid.
    const int64_t num_partials = std::max<int64_t>(limits.max_partials, plan_.num_partials);
    partials_ = MakePartialLayout(num_partials * rows_per_partial, kernels::DecodeColumns(spec_));
    workspace.Reserve(partials_.end);
    workspace_ = &workspace;
  }

  void Upload(const AttentionTables& tables, Stream stream) {
    const auto num_pieces = static_cast<int64_t>(plan_.pieces.size());
    layout_ = MakeTableLayout(num_slots_, std::max(num_pieces, tables.num_requests() + num_slots_),
                              std::max<int64_t>(num_slots_, plan_.num_merges) * num_tiles_);
    if (tables_ == nullptr || tables_->device() != device_) {
      tables_ = std::make_unique<Workspace>(device_);
    }
    block_ = static_cast<char*>(tables_->Reserve(layout_.end));
    staging_.assign(layout_.end, 0);  // counters begin at 0
    auto* slots = reinterpret_cast<kernels::DecodeSlot*>(staging_.data() + layout_.slots);
    for (size_t i = 0; i + 1 < plan_.slot_begin.size(); ++i) {
      const int32_t begin = plan_.slot_begin[i];
      const int32_t num_pieces = plan_.slot_begin[i + 1] - begin;
      if (num_pieces == 0) continue;
      slots[i] = {.first = plan_.pieces[static_cast<size_t>(begin)],
                  .num_pieces = num_pieces,
                  .first_index = begin};
    }
    std::copy(plan_.pieces.begin(), plan_.pieces.end(),
              reinterpret_cast<DecodePiece*>(staging_.data() + layout_.pieces));
    CopyToDevice(block_, staging_.data(), staging_.size(), stream);
  }

  /// The planned kernel; another one of the same tiles where rows are less aligned than that.
  struct Choice {
    const Kernel* kernel;
    int32_t vector_size;
  };
  Choice KernelFor(const AttentionTensors& t) const {
    kernels::DecodeSpec spec = spec_;
    const int32_t access_bytes = AccessBytes(t, problem_);
    if (access_bytes < spec.vector_size * kernels::DecodeElementBytes(spec.dtype_kv)) {
      spec = SpecOf(problem_, access_bytes);
      FLASHINFER_CHECK(spec.rows_tile == spec_.rows_tile,
                       "tensors: rows are aligned to {} bytes of the cache, accepted with head_dim "
                       "{}: 4 or more",
                       access_bytes, problem_.head_dim_vo);
    }
    spec.wide_strides = IsWide(t.cache, spec.vector_size);
    if (spec == spec_) return {kernel_, spec.vector_size};
    return {&jit::GetKernel(spec, device_), spec.vector_size};
  }

  kernels::DecodeParams ParamsOf(const AttentionTensors& t, int32_t vector_size) const {
    const AttentionProblem& p = problem_;
    const PageStrides k = StridesOf(t.cache.k, t.cache.layout);
    const PageStrides v = StridesOf(t.cache.v, t.cache.layout);
    const AttentionExtras& extras = t.extras;
    const auto values = [](const TensorView& x) -> kernels::DecodeHeadValues {
      if (!x.defined()) return {nullptr, 0};
      return {x.data_as<const float>(), x.stride(0)};
    };
    const bool has_lse = t.lse.defined();
    // Another plan may have made the workspace grow: it is asked each time where it is.
    char* partials = static_cast<char*>(workspace_->Reserve(partials_.end));
    return {.q = t.q.data(),
            .k = t.cache.k.data(),
            .v = t.cache.v.data(),
            .out = t.out.data(),
            .lse = has_lse ? t.lse.data_as<float>() : nullptr,
            .pages = pages_,
            .pieces = reinterpret_cast<const DecodePiece*>(block_ + layout_.pieces),
            .slots = reinterpret_cast<const kernels::DecodeSlot*>(block_ + layout_.slots),
            .partial_o = reinterpret_cast<float*>(partials + partials_.o),
            .partial_ml = reinterpret_cast<float*>(partials + partials_.ml),
            .counters = reinterpret_cast<uint32_t*>(block_ + layout_.counters),
            .sinks = values(p.has_sinks ? extras.sinks : TensorView()),
            .q_scales = values(extras.q_scales),
            .k_scales = values(extras.k_scales),
            .v_scales = values(extras.v_scales),
            .q_stride_request = t.q.stride(0),
            .q_stride_head = t.q.stride(1),
            .out_stride_request = t.out.stride(0),
            .out_stride_head = t.out.stride(1),
            .lse_stride_request = has_lse ? t.lse.stride(0) : 0,
            .lse_stride_head = has_lse ? t.lse.stride(1) : 0,
            .pages_stride = pages_stride_,
            .k_strides = {k.page / vector_size, k.token / vector_size, k.head},
            .v_strides = {v.page / vector_size, v.token / vector_size, v.head},
            .page_size = kernels::MakeDivisor(static_cast<uint32_t>(std::max(1, p.page_size))),
            .head_dim_qk = p.head_dim_qk,
            .head_dim_vo = p.head_dim_vo,
            .group_size = p.group_size(),
            .row_tiles = RowTiles(p, spec_),
            .sm_scale = p.sm_scale * extras.q_scale * extras.k_scale,
            .v_scale = extras.v_scale,
            .soft_cap = p.logits_soft_cap};
  }

  AttentionProblem problem_;
  kernels::DecodeSpec spec_;
  const Kernel* kernel_ = nullptr;
  DecodePlan plan_;
  std::vector<char> staging_;
  TableLayout layout_{};
  PartialLayout partials_{};
  std::unique_ptr<Workspace> tables_;
  Workspace* workspace_ = nullptr;
  Device device_;
  int64_t num_tiles_ = 1;
  int64_t num_slots_ = 1;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
  char* block_ = nullptr;
};

}  // namespace

bool AcceptsDecodeSimt(const AttentionProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, kernels::DecodeSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype_q) && !IsFp8(p.dtype_q)) {
    return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (!IsFloat(p.dtype_kv) && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out) && !IsFp8(p.dtype_out)) {
    return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (p.mask != MaskMode::kNone && p.mask != MaskMode::kCausal) {
    return Refuse(why, "mask must be none or causal");
  }
  if (p.pos_encoding != PositionEncoding::kNone) return Refuse(why, "pos_encoding must be none");
  if (p.has_bias) return Refuse(why, "has_bias must be 0");
  if (int64_t{p.num_qo_heads} > 65535) return Refuse(why, "num_qo_heads must be at most 65535");
  return true;
}

std::unique_ptr<AttentionExecutor> MakeDecodeSimt() { return std::make_unique<DecodeSimt>(); }

size_t DecodeSimtWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  const kernels::DecodeSpec spec = SpecOf(problem, 16);
  const int64_t num_tiles = problem.num_kv_heads * RowTiles(problem, spec);
  // The largest devices have 192 multiprocessors; 16 blocks of a kind fit on each at most.
  const int64_t num_partials = MaxPartials(NumSlots(192 * 16, num_tiles));
  return MakePartialLayout(num_partials * num_tiles * spec.rows_tile, kernels::DecodeColumns(spec))
      .end;
}

}  // namespace flashinfer::cuda
