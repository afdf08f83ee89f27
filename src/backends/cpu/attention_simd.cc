// SPDX-License-Identifier: Apache-2.0
// One piece of attention: packed query rows over tiles of 64 keys, with an online softmax.
//
// Few rows (decode: the query heads of a group) read keys and values as they are stored, once:
// bound by memory. Many rows (prefill) transpose a tile of keys, so that lanes are keys and queries
// are broadcast, and multiply in register blocks: bound by multiplication, of pairs of bf16 where
// queries, cache and machine have them. Keys that a row may not see are left out of every sum, not
// multiplied by zero: they may hold anything.
#include "backends/cpu/attention.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/attention_tiles.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class Visit>
inline void VisitFloatType(DType dtype, Visit&& visit) {
  if (dtype == DType::kF32) return visit(float{});
  if (dtype == DType::kF16) return visit(F16{});
  visit(BF16{});
}

inline int VectorPart(int size, int begin) {
  return size - begin < F32::kWidth ? size - begin : F32::kWidth;
}

// ---- Queries in, results out ----

void LoadQueries(const AttentionTask& task, bool as_pairs) {
  const int size = task.problem->head_dim_qk;
  const int group = task.num_qo_heads;
  float* to = task.scratch.q;
  VisitFloatType(task.problem->dtype_q, [&]<class Q>(Q) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row, to += PaddedDim(size)) {
      const Q* from = reinterpret_cast<const Q*>(task.q) + row / group * task.q_stride_token +
                      row % group * task.q_stride_head;
      if (as_pairs) {
        __builtin_memcpy(to, from, static_cast<size_t>(size) * sizeof(Q));
        continue;
      }
      for (int i = 0; i < size; i += F32::kWidth)
        Store(to + i, Load(from + i, VectorPart(size, i)));
    }
  });
}

void StoreResult(const AttentionTask& task, const AttentionState& state) {
  const int size = task.problem->head_dim_vo;
  const int group = task.num_qo_heads;
  const float* o = state.o;
  VisitFloatType(task.problem->dtype_out, [&]<class O>(O) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row, o += PaddedDim(size)) {
      O* to = reinterpret_cast<O*>(task.out) + row / group * task.out_stride_token +
              row % group * task.out_stride_head;
      const float l = state.l[row - task.row_begin];
      for (int i = 0; i < size; i += F32::kWidth) {
        Store(to + i, l == 0 ? F32::Set(0.0f) : Load(o + i) / F32::Set(l), VectorPart(size, i));
      }
    }
  });
  if (task.lse == nullptr) return;
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const int64_t r = row - task.row_begin;
    task.lse[row / group * task.lse_stride_token + row % group * task.lse_stride_head] =
        state.l[r] == 0 ? kMinusInf : state.m[r] + __builtin_log2f(state.l[r]);
  }
}

// ---- Masks ----

/// Which keys of a tile each row sees.
class TileMask {
 public:
  TileMask(const AttentionTask& task, int64_t tile_begin, int num_tokens)
      : position_(task.position - tile_begin),
        row_begin_(task.row_begin),
        group_(task.num_qo_heads),
        window_left_(task.problem->window_left),
        num_tokens_(num_tokens),
        causal_(task.problem->causal) {
    const int64_t first = position_ + task.row_begin / group_;
    const int64_t last = position_ + (task.row_end - 1) / group_;
    is_full_ =
        (!causal_ || first >= num_tokens - 1) && (window_left_ < 0 || last - window_left_ <= 0);
  }

  /// Whether every row sees every key.
  bool is_full() const { return is_full_; }

  KeySpan Of(int row) const {
    if (is_full_) return {0, num_tokens_};
    const int64_t position = position_ + (row_begin_ + row) / group_;
    const int64_t begin = window_left_ >= 0 ? position - window_left_ : 0;
    const int64_t end = Clamp(causal_ ? position + 1 : num_tokens_, num_tokens_);
    return {static_cast<int>(Clamp(begin, end)), static_cast<int>(end)};
  }

 private:
  static int64_t Clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x > high ? high : x; }

  int64_t position_;  // of token 0, from the tile's first key
  int64_t row_begin_;
  int group_;
  int window_left_;
  int num_tokens_;
  bool causal_;
  bool is_full_;
};

// ---- One piece ----

/// Over keys stored as `T`; pairs of bf16 are multiplied as such when kPairs.
template <class T, bool kPairs>
class Piece {
 public:
  explicit Piece(const AttentionTask& task)
      : task_(task),
        problem_(*task.problem),
        s_(task.scratch),
        rows_(static_cast<int>(task.row_end - task.row_begin)),
        rows_per_head_(rows_ / task.num_kv_heads),
        scale_(ScaleOf(problem_.sm_scale, problem_.logits_soft_cap)) {
    // In batch-invariant mode, what is done to a row must not depend on how many come with it; a
    // decode's rows are always its whole group.
    const bool may_read_in_place = problem_.fixed_split_size == 0 ||
                                   (!problem_.causal && rows_per_head_ == problem_.group_size());
    reads_in_place_ = may_read_in_place && rows_per_head_ <= kMaxRowsInPlace &&
                      problem_.head_dim_qk % kInPlaceDims == 0 &&
                      problem_.head_dim_vo % kInPlaceDims == 0;
  }

  void Run() {
    AttentionState state = task_.partial != nullptr ? *task_.partial : s_.state;
    const int64_t stride = PaddedDim(problem_.head_dim_vo);
    const int split = problem_.fixed_split_size;
    LoadQueries(task_, kPairs);
    Reset(state, rows_, stride);
    bool has_folded = false;
    TilePointers<T> tiles[2];
    FindTile(tiles[0], task_.kv_begin);
    for (int64_t key = task_.kv_begin, i = 0; key < task_.kv_end; key += kTileTokens, i ^= 1) {
      if (split > 0 && key > task_.kv_begin && key % split == 0) {
        if (!has_folded) Reset(s_.folded, rows_, stride);
        has_folded = true;
        Fold(s_.folded, state, rows_, stride);
        Reset(state, rows_, stride);
      }
      FindTile(tiles[i ^ 1], key + kTileTokens);
      Heads(state, key, tiles[i], tiles[i ^ 1]);
    }
    if (has_folded) {
      Fold(s_.folded, state, rows_, stride);
      state = s_.folded;
    }
    if (task_.partial == nullptr) StoreResult(task_, state);
  }

 private:
  /// Where keys `begin` to the tile's end, or the piece's, are.
  void FindTile(TilePointers<T>& tile, int64_t begin) const {
    const int64_t left = task_.kv_end - begin;
    tile.count = left <= 0 ? 0 : left < kTileTokens ? static_cast<int>(left) : kTileTokens;
    if (tile.count == 0) return;
    const int64_t page_size = problem_.page_size;
    const int32_t* page = task_.pages + begin / page_size * task_.pages_stride;
    int64_t slot = begin % page_size;
    for (int i = 0; i < tile.count; page += task_.pages_stride, slot = 0) {
      const T* k = reinterpret_cast<const T*>(task_.k) + *page * task_.k_strides.page +
                   slot * task_.k_strides.token;
      const T* v = reinterpret_cast<const T*>(task_.v) + *page * task_.v_strides.page +
                   slot * task_.v_strides.token;
      for (; i < tile.count && slot < page_size; ++i, ++slot) {
        tile.k[i] = k;
        tile.v[i] = v;
        k += task_.k_strides.token;
        v += task_.v_strides.token;
      }
    }
    // Blocks of keys are read whole; the scores of repeated ones are masked.
    for (int i = tile.count; i % kKeysInPlace != 0; ++i) tile.k[i] = tile.k[tile.count - 1];
  }

  /// All heads over one tile; moves `tile` to the last head.
  void Heads(const AttentionState& state, int64_t begin, TilePointers<T>& tile,
             const TilePointers<T>& next) {
    const TileMask mask(task_, begin, tile.count);
    for (int head = 0; head < task_.num_kv_heads; ++head) {
      const bool is_last = head + 1 == task_.num_kv_heads;
      TilePointers<T> beside;
      if (!is_last) {
        beside = tile;
        Move(beside, task_.k_strides.head, task_.v_strides.head);
      }
      Tile(state, head * rows_per_head_, mask, tile, is_last ? next : beside);
      if (!is_last) tile = beside;
    }
  }

  /// The rows of one head, from `first` on; `next` is read after this one.
  void Tile(const AttentionState& all, int first, const TileMask& mask, const TilePointers<T>& tile,
            const TilePointers<T>& next) {
    const int dim_qk = problem_.head_dim_qk;
    const int dim_vo = problem_.head_dim_vo;
    const int rows = rows_per_head_;
    const AttentionState state{all.o + first * PaddedDim(dim_vo), all.m + first, all.l + first};
    const float* q = s_.q + first * PaddedDim(dim_qk);
    const bool in_place = reads_in_place_ && mask.is_full();
    if (in_place) {
      ScoresInPlace<kPairs>(tile, q, rows, dim_qk, dim_vo, s_.scores);
    } else {
      ScoresTransposed<kPairs>(tile, q, rows, dim_qk, s_.k, s_.scores);
    }
    for (int r = 0; r < rows; ++r) {
      float* pairs = in_place ? nullptr : s_.pairs + r * (kTileTokens / 2);
      SoftmaxRow<kPairs>(scale_, mask.Of(first + r), tile.count, s_.scores + r * kTileTokens, pairs,
                         state, r, s_.alpha + r);
    }
    if (in_place) {
      ValuesInPlace(tile, next, s_.scores, rows, dim_qk, dim_vo, s_.alpha, state.o);
    } else if (!mask.is_full() && !AllFinite(tile, dim_vo)) {
      ValuesOneByOne(tile, s_.scores, rows, dim_vo, s_.alpha, state.o);
    } else {
      ValuesPacked<kPairs>(tile, s_.scores, s_.pairs, rows, dim_vo, s_.alpha, s_.v, state.o);
    }
  }

  const AttentionTask& task_;
  const AttentionProblem& problem_;
  const AttentionScratch& s_;
  int rows_;
  int rows_per_head_;
  ScoreScale scale_;
  bool reads_in_place_;
};

void Run(const AttentionTask& task) {
  switch (task.problem->dtype_kv) {
    case DType::kF32:
      return Piece<float, false>(task).Run();
    case DType::kF16:
      return Piece<F16, false>(task).Run();
    default:
#if defined(__AVX512BF16__)
      if (task.problem->dtype_q == DType::kBF16) return Piece<BF16, true>(task).Run();
#endif
      return Piece<BF16, false>(task).Run();
  }
}

void Merge(const AttentionTask& task, const AttentionState& first, int64_t stride,
           int num_partials) {
  const int rows = static_cast<int>(task.row_end - task.row_begin);
  for (int i = 1; i < num_partials; ++i) {
    const AttentionState next{first.o + i * stride, first.m + i * stride, first.l + i * stride};
    Fold(first, next, rows, PaddedDim(task.problem->head_dim_vo));
  }
  StoreResult(task, first);
}

}  // namespace

const AttentionKernels kAttentionKernels{Run, Merge};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
