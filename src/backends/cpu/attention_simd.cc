// SPDX-License-Identifier: Apache-2.0
// One piece of attention: packed query rows over tiles of 64 keys, with an online softmax.
//
// Few rows (decode: the query heads of a group) read keys and values as they are stored, once:
// bound by memory. Many rows (prefill) transpose a tile of keys, so that lanes are keys and queries
// are broadcast, and multiply in register blocks: bound by multiplication, of pairs of bf16 where
// queries, cache and machine have them. Keys that a row may not see are left out of every sum, not
// multiplied by zero: they may hold anything.
#include "backends/cpu/attention.h"
#include "backends/cpu/simd/attention_mask.h"
#include "backends/cpu/simd/attention_rotation.h"
#include "backends/cpu/simd/attention_rows.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/attention_tiles.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

/// Keys of a tile that is read in place, of all its heads: their values must stay in the
/// second-level cache meanwhile, and the next tile's keys.
constexpr int64_t kMaxTileBytes = 128 << 10;
constexpr int kMinTileKeys = 16;

/// Rows that go over a packed tile together where not all see all its keys, up to the last key that
/// one sees: whole blocks of a product and of the softmax. Zen 4 with 2 threads, 2026-11, causal
/// prefill of 512 tokens takes 19 % less time in bf16, 14 % in f32; 96 rows 17 and 12 %.
constexpr int kRowsPerGroup = 48;
static_assert(kRowsPerGroup % kBlockRows == 0 && kRowsPerGroup % F32::kWidth == 0);

/// A tile is read at so many places side by side: one alone leaves the memory waiting between
/// pages. Zen 4 (family 25 model 17, 2 threads), 2026-11, 32/8/128 over 32k keys in bf16: 43 GB/s
/// of the 56 to 60 that reading in order reaches; 31 to 34 in the order of memory.
constexpr int kStreams = 4;
/// Tokens of a part, which all heads read before the next, of keys and of values. Values by 16:
/// 41 GB/s, by 64: 41 (f32: 37, 38, 40).
constexpr int kKeysPerPart = kKeysInPlace;
constexpr int kValuesPerPart = 32;

/// Over keys stored as `T`; pairs of bf16 are multiplied as such when kPairs, without rotation.
template <class T, bool kPairs>
class Piece {
 public:
  explicit Piece(const AttentionTask& task)
      : task_(task),
        problem_(*task.problem),
        s_(task.scratch),
        rows_(static_cast<int>(task.row_end - task.row_begin)),
        rows_per_head_(rows_ / task.num_kv_heads),
        rotates_(problem_.pos_encoding == PositionEncoding::kRopeLlama),
        heads_are_beside_(task.k_strides.head < task.k_strides.token) {
    // In batch-invariant mode, what is done to a row must not depend on how many come with it.
    const bool may_read_in_place = problem_.fixed_split_size == 0 || task.is_decode;
    reads_in_place_ = may_read_in_place && rows_per_head_ <= kMaxRowsInPlace && !rotates_ &&
                      !problem_.has_bias && problem_.head_dim_qk % kInPlaceDims == 0 &&
                      problem_.head_dim_vo % kInPlaceDims == 0;
    const int64_t key_bytes =
        int64_t{task.num_kv_heads} * problem_.head_dim_qk * int64_t{sizeof(T)};
    while (reads_in_place_ && problem_.fixed_split_size == 0 && tile_keys_ > kMinTileKeys &&
           tile_keys_ * key_bytes > kMaxTileBytes) {
      tile_keys_ /= 2;
    }
    for (int r = 0; r < rows_; ++r) {
      const int64_t row = task.row_begin + r;
      const float scale = task.score_scale * ValueOf(task.q_scales, HeadOf(task, row), 1) *
                          ValueOf(task.k_scales, KvHeadOf(task, row), 1);
      scores_[r] =
          RowScoresOf(scale, ValueOf(task.slopes, HeadOf(task, row), 0), problem_.logits_soft_cap);
    }
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
    if (reads_in_place_) FetchKeys(tiles[0]);
    for (int64_t key = task_.kv_begin, i = 0; key < task_.kv_end; key += tile_keys_, i ^= 1) {
      if (split > 0 && key > task_.kv_begin && key % split == 0) {
        if (!has_folded) Reset(s_.folded, rows_, stride);
        has_folded = true;
        Fold(s_.folded, state, rows_, stride);
        Reset(state, rows_, stride);
      }
      FindTile(tiles[i ^ 1], key + tile_keys_);
      Heads(state, key, tiles[i], tiles[i ^ 1]);
    }
    if (has_folded) {
      Fold(s_.folded, state, rows_, stride);
      state = s_.folded;
    }
    if (task_.partial == nullptr) StoreResult(task_, state);
  }

 private:
  /// Asks for all keys of the first tile, which nothing came before to do.
  void FetchKeys(const TilePointers<T>& tile) const {
    LineFetcher<T> keys(tile.k, tile.count, task_.num_kv_heads, task_.k_strides,
                        problem_.head_dim_qk);
    keys.Fetch(tile.count * task_.num_kv_heads *
               LinesIn(problem_.head_dim_qk * int64_t{sizeof(T)}));
  }

  /// Where keys `begin` to the tile's end, or the piece's, are.
  void FindTile(TilePointers<T>& tile, int64_t begin) const {
    const int64_t left = task_.kv_end - begin;
    tile.count = left <= 0 ? 0 : left < tile_keys_ ? static_cast<int>(left) : tile_keys_;
    if (tile.count == 0) return;
    const int streams = NumStreams(begin, tile.count);
    const int per_stream = tile.count / streams;
    const int64_t page_size = task_.page_size;
    const int32_t* page = task_.pages + begin / page_size * task_.pages_stride;
    int64_t slot = begin % page_size;
    for (int i = 0; i < tile.count; page += task_.pages_stride, slot = 0) {
      const T* k = reinterpret_cast<const T*>(task_.k) + *page * task_.k_strides.page +
                   slot * task_.k_strides.token;
      const T* v = reinterpret_cast<const T*>(task_.v) + *page * task_.v_strides.page +
                   slot * task_.v_strides.token;
      for (; i < tile.count && slot < page_size; ++i, ++slot) {
        const int to = streams == 1 ? i : i % per_stream * streams + i / per_stream;
        tile.k[to] = k;
        tile.v[to] = v;
        k += task_.k_strides.token;
        v += task_.v_strides.token;
      }
    }
    // Blocks of keys are read whole; the scores of repeated ones are masked.
    for (int i = tile.count; i % kKeysInPlace != 0; ++i) tile.k[i] = tile.k[tile.count - 1];
  }

  /// Parts of a tile of `count` keys that are read side by side. Only of tiles that all rows see
  /// alike: the order of keys in a tile is then no matter.
  int NumStreams(int64_t begin, int count) const {
    const bool any_order =
        reads_in_place_ && task_.slopes.data == nullptr && TileMask::IsFull(task_, begin, count);
    return any_order && count % kStreams == 0 ? kStreams : 1;
  }

  /// All heads over one tile; `next` is the tile that comes after. Moves `tile` to the last head.
  void Heads(const AttentionState& state, int64_t begin, TilePointers<T>& tile,
             const TilePointers<T>& next) {
    const TileMask mask(task_, begin, tile.count);
    if (mask.is_empty()) return;
    MoveScores(begin);
    if (reads_in_place_ && mask.is_full()) return HeadsInPlace(state, mask, tile, next);
    if (rotates_) {
      const int64_t stride = PaddedDim(problem_.head_dim_qk / 2);
      for (int i = 0; i < tile.count; ++i) {
        FillAngles(task_.turns_per_position, begin + i, problem_.head_dim_qk / 2,
                   s_.cos + i * stride, s_.sin + i * stride);
      }
    }
    const int num_heads = task_.num_kv_heads;
    LineFetcher<T> keys(next.k, next.count, num_heads, task_.k_strides, problem_.head_dim_qk);
    LineFetcher<T> values(next.v, next.count, num_heads, task_.v_strides, problem_.head_dim_vo);
    const int key_lines = LinesIn(problem_.head_dim_qk * int64_t{sizeof(T)});
    const int value_lines = LinesIn(problem_.head_dim_vo * int64_t{sizeof(T)});
    const int num_blocks = (rows_per_head_ + kBlockRows - 1) / kBlockRows;
    const int rows_per_fetch = (tile.count + 2 * num_blocks - 1) / (2 * num_blocks);
    for (int head = 0; head < num_heads; ++head) {
      if (head > 0) Move(tile, task_.k_strides.head, task_.v_strides.head);
      // Between products: so many requests at once are more than the machine keeps.
      int left = tile.count;
      const auto fetch = [&](int count) {
        for (; count > 0 && left > 0; --count, --left) {
          keys.Fetch(key_lines);
          values.Fetch(value_lines);
        }
      };
      HeadPacked(state, head * rows_per_head_, mask, tile, [&] { fetch(rows_per_fetch); });
      fetch(left);
    }
  }

  /// First the keys of all heads, while values are on their way to the cache; then those, while
  /// the next tile's keys are.
  void HeadsInPlace(const AttentionState& state, const TileMask& mask, const TilePointers<T>& tile,
                    const TilePointers<T>& next) {
    const int dim_qk = problem_.head_dim_qk;
    const int dim_vo = problem_.head_dim_vo;
    const int num_heads = task_.num_kv_heads;
    LineFetcher<T> values(tile.v, tile.count, num_heads, task_.v_strides, dim_vo);
    LineFetcher<T> next_keys(next.k, next.count, num_heads, task_.k_strides, dim_qk);
    ForEachPart(tile.count, kKeysPerPart, [&](TokenRange tokens, int head) {
      const int first = head * rows_per_head_;
      ScoresInPlace<kPairs>(tile, tokens,
                            {head * task_.k_strides.head, s_.q + first * PaddedDim(dim_qk),
                             s_.scores + first * kTileTokens, rows_per_head_, dim_qk},
                            values);
    });
    SoftmaxRows<kPairs>({s_.scores, s_.pairs, state.m, state.l, s_.alpha}, rows_, [&](int r) {
      return RowTile{scores_[r], mask.Of(r), tile.count};
    });
    ForEachPart(tile.count, kValuesPerPart, [&](TokenRange tokens, int head) {
      const int first = head * rows_per_head_;
      const float* p =
          kPairs ? s_.pairs + first * (kTileTokens / 2) : s_.scores + first * kTileTokens;
      ValuesInPlace<kPairs>(tile,
                            {tokens, head * task_.v_strides.head, p, s_.alpha + first,
                             state.o + first * PaddedDim(dim_vo), PaddedDim(dim_vo)},
                            rows_per_head_, dim_vo, next_keys);
    });
  }

  /// Visits parts of a tile in the order of memory: of `size` tokens where the heads of a token are
  /// neighbours, and else of all.
  template <class Visit>
  void ForEachPart(int num_tokens, int size, Visit&& visit) const {
    const int step = heads_are_beside_ ? size : num_tokens;
    for (int begin = 0; begin < num_tokens; begin += step) {
      const int end = begin + step < num_tokens ? begin + step : num_tokens;
      for (int head = 0; head < task_.num_kv_heads; ++head) visit(TokenRange{begin, end}, head);
    }
  }

  /// Lets scores_ count from key `begin`.
  void MoveScores(int64_t begin) {
    const AttentionBiasRows& bias = task_.bias;
    if (task_.slopes.data == nullptr && bias.data == nullptr) return;
    const int64_t bias_bytes = bias.dtype == DType::kF32 ? 4 : 2;
    for (int r = 0; r < rows_; ++r) {
      const int64_t row = task_.row_begin + r;
      const int64_t token = row / task_.num_qo_heads;
      scores_[r].offset = static_cast<float>(begin - token);
      if (bias.data == nullptr) continue;
      scores_[r].bias =
          bias.data +
          (HeadOf(task_, row) * bias.stride_head + token * bias.stride_token + begin) * bias_bytes;
      scores_[r].dtype_bias = bias.dtype;
    }
  }

  /// The rows of one head, from `first` on; some at a time where they see different keys.
  /// `between` is called before each register block of a product.
  template <class Between>
  void HeadPacked(const AttentionState& all, int first, const TileMask& mask,
                  const TilePointers<T>& tile, Between&& between) {
    const int dim_qk = problem_.head_dim_qk;
    const int dim_vo = problem_.head_dim_vo;
    if (rotates_) {
      TransposeKeys<false>(RotateKeys(tile), dim_qk, s_.k);
    } else {
      TransposeKeys<kPairs>(tile, dim_qk, s_.k);
    }
    const bool may_hide = !mask.is_full() || problem_.has_bias;
    const bool one_by_one = may_hide && !AllFinite(tile, dim_vo);
    if (!one_by_one) PackValues<kPairs>(tile, dim_vo, s_.v);
    const float* p = kPairs ? s_.pairs : s_.scores;
    const int end = first + rows_per_head_;
    const int group = mask.is_full() ? rows_per_head_ : kRowsPerGroup;
    for (int row = first; row < end; row += group) {
      const int rows = end - row < group ? end - row : group;
      const int num_keys = mask.NumKeys(row, rows);
      if (num_keys == 0) continue;
      const AttentionState state{all.o + row * PaddedDim(dim_vo), all.m + row, all.l + row};
      const float* q = s_.q + row * PaddedDim(dim_qk);
      ScoresTransposed<kPairs>(s_.k, q, rows, dim_qk, num_keys, s_.scores, between);
      SoftmaxRows<kPairs>({s_.scores, s_.pairs, state.m, state.l, s_.alpha}, rows, [&](int r) {
        return RowTile{scores_[row + r], mask.Of(row + r), num_keys};
      });
      if (one_by_one) {
        ValuesOneByOne<kPairs>(tile, p, rows, dim_vo, num_keys, s_.alpha, state.o);
      } else {
        ValuesPacked<kPairs>(s_.v, p, rows, dim_vo, num_keys, s_.alpha, state.o, between);
      }
    }
  }

  /// The tile's keys as rotated floats in scratch memory.
  TilePointers<float> RotateKeys(const TilePointers<T>& tile) const {
    const int dim = problem_.head_dim_qk;
    TilePointers<float> rotated;
    rotated.count = tile.count;
    for (int i = 0; i < tile.count; ++i) {
      float* to = s_.rotated + i * PaddedDim(dim);
      const int64_t angles = i * PaddedDim(dim / 2);
      Rotate(tile.k[i], dim / 2, s_.cos + angles, s_.sin + angles, to);
      rotated.k[i] = to;
    }
    return rotated;
  }

  const AttentionTask& task_;
  const AttentionProblem& problem_;
  const AttentionScratch& s_;
  int rows_;
  int rows_per_head_;
  bool rotates_;
  bool reads_in_place_;
  bool heads_are_beside_;  ///< of a token, closer than the next token
  int tile_keys_ = kTileTokens;
  RowScores scores_[kAttentionRowsTile];
};

void Run(const AttentionTask& task) {
  switch (task.problem->dtype_kv) {
    case DType::kF32:
      return Piece<float, false>(task).Run();
    case DType::kF16:
      return Piece<F16, false>(task).Run();
    case DType::kE4M3:
      return Piece<E4M3, false>(task).Run();
    case DType::kE5M2:
      return Piece<E5M2, false>(task).Run();
    case DType::kI8:
      return Piece<int8_t, false>(task).Run();
    default:
#if defined(__AVX512BF16__)
      if (task.problem->dtype_q == DType::kBF16 &&
          task.problem->pos_encoding != PositionEncoding::kRopeLlama) {
        return Piece<BF16, true>(task).Run();
      }
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
