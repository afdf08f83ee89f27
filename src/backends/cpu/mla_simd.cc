// SPDX-License-Identifier: Apache-2.0
// One piece of latent attention: rows (heads of tokens) over tiles of 64 keys, with an online
// softmax.
//
// All rows share the keys, so scores are a product of a tile of keys, as stored, and queries that
// lie side by side: lanes are rows, nothing is transposed per tile, and the softmax needs no sums
// across lanes. Values are the same tile, which is read from memory once; only the probabilities
// are transposed. Bound by multiplication from a few heads on, of pairs of bf16 where queries and
// machine have them and the cache's numbers are exact in bf16.
#include "backends/cpu/mla.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/mla_tiles.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

void StoreResult(const MlaTask& task, const AttentionState& state) {
  const int dim = task.problem->head_dim_ckv;
  const int heads = task.problem->num_heads;
  const float* o = state.o;
  VisitFloatType(task.problem->dtype_out, [&]<class O>(O) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row, o += PaddedDim(dim)) {
      O* to = reinterpret_cast<O*>(task.out) + row / heads * task.out_stride_token +
              row % heads * task.out_stride_head;
      const float l = state.l[row - task.row_begin];
      for (int i = 0; i < dim; i += F32::kWidth) {
        const F32 x = Load(o + i) / F32::Set(l) * F32::Set(task.ckv_scale);
        Store(to + i, l == 0 ? F32::Set(0.0f) : x, VectorPart(dim, i));
      }
    }
  });
  if (task.lse == nullptr) return;
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const int64_t r = row - task.row_begin;
    task.lse[row / heads * task.lse_stride_token + row % heads * task.lse_stride_head] =
        state.l[r] == 0 ? kMinusInf : state.m[r] + __builtin_log2f(state.l[r]);
  }
}

/// Over keys stored as `T`; pairs of bf16 are multiplied as such when kPairs.
template <class T, bool kPairs>
class MlaPiece {
 public:
  /// Whether the cache holds words as they are multiplied.
  static constexpr bool kInPlace = kPairs && std::is_same_v<T, BF16>;

  explicit MlaPiece(const MlaTask& task)
      : task_(task),
        problem_(*task.problem),
        s_(task.scratch),
        rows_(static_cast<int>(task.row_end - task.row_begin)),
        ckv_words_(kPairs ? problem_.head_dim_ckv / 2 : problem_.head_dim_ckv),
        kpe_words_(kPairs ? problem_.head_dim_kpe / 2 : problem_.head_dim_kpe),
        key_stride_(MlaKeyStride(problem_)),
        scale_(RowScoresOf(
            problem_.sm_scale * (problem_.head_dim_kpe > 0 ? task.kpe_scale : task.ckv_scale), 0,
            problem_.logits_soft_cap)) {
    for (float& x : ckv_over_kpe_) x = task.ckv_scale / task.kpe_scale;
  }

  void Run() {
    AttentionState state = task_.partial != nullptr ? *task_.partial : s_.state;
    const int64_t stride = PaddedDim(problem_.head_dim_ckv);
    const int split = problem_.fixed_split_size;
    if (task_.kv_begin < task_.kv_end) LoadQueries();
    Reset(state, PaddedRows(), stride);
    bool has_folded = false;
    MlaTile<T> tiles[2];
    FindTile(tiles[0], task_.kv_begin);
    for (int64_t key = task_.kv_begin, i = 0; key < task_.kv_end; key += kMlaKvTile, i ^= 1) {
      if (split > 0 && key > task_.kv_begin && key % split == 0) {
        if (!has_folded) Reset(s_.folded, PaddedRows(), stride);
        has_folded = true;
        Fold(s_.folded, state, rows_, stride);
        Reset(state, PaddedRows(), stride);
      }
      FindTile(tiles[i ^ 1], key + kMlaKvTile);
      Tile(state, key, tiles[i], tiles[i ^ 1]);
    }
    if (has_folded) {
      Fold(s_.folded, state, rows_, stride);
      state = s_.folded;
    }
    if (task_.partial == nullptr) StoreResult(task_, state);
  }

 private:
  int PaddedRows() const { return (rows_ + F32::kWidth - 1) / F32::kWidth * F32::kWidth; }

  void LoadQueries() const {
    QueryPart part{task_.q_nope,           task_.q_nope_stride_token, task_.q_nope_stride_head,
                   problem_.num_heads,     problem_.head_dim_ckv,     0,
                   ckv_words_ + kpe_words_};
    const auto load = [&] {
      if constexpr (kPairs) return PackQueries<true, BF16>(part, task_.row_begin, rows_, s_.q);
      VisitFloatType(problem_.dtype_q, [&]<class Q>(Q) {
        PackQueries<false, Q>(part, task_.row_begin, rows_, s_.q);
      });
    };
    load();
    if (kpe_words_ == 0) return;
    part.q = task_.q_pe;
    part.stride_token = task_.q_pe_stride_token;
    part.stride_head = task_.q_pe_stride_head;
    part.dim = problem_.head_dim_kpe;
    part.first_word = ckv_words_;
    load();
  }

  /// Where keys `begin` to the tile's end, or the piece's, are.
  void FindTile(MlaTile<T>& tile, int64_t begin) const {
    const int64_t left = task_.kv_end - begin;
    tile.count = left <= 0 ? 0 : left < kMlaKvTile ? static_cast<int>(left) : kMlaKvTile;
    for (int i = 0; i < tile.count; ++i) {
      const int64_t token = begin + i;
      const int64_t page = task_.pages[token / problem_.page_size * task_.pages_stride];
      const int64_t slot = token % problem_.page_size;
      tile.ckv[i] = reinterpret_cast<const T*>(task_.ckv) + page * task_.ckv_stride_page +
                    slot * task_.ckv_stride_token;
      if (kpe_words_ > 0) {
        tile.kpe[i] = reinterpret_cast<const T*>(task_.kpe) + page * task_.kpe_stride_page +
                      slot * task_.kpe_stride_token;
      }
      if (task_.ckv_scales != nullptr) {
        tile.scales[i] =
            task_.ckv_scales + page * task_.scales_stride_page + slot * task_.scales_stride_token;
      }
    }
  }

  /// The words of a tile's key: those of the cache where it holds such, else packed ones.
  const float* Key(const MlaTile<T>& tile, int t) const {
    if constexpr (kInPlace) return reinterpret_cast<const float*>(tile.ckv[t]);
    return s_.k + t * key_stride_;
  }

  void LoadKeys(const MlaTile<T>& tile) const {
    for (int t = 0; t < tile.count; ++t) {
      float* words = s_.k + t * key_stride_;
      PackKey<kPairs>(tile.ckv[t], problem_.head_dim_ckv, tile.scales[t], task_.scales_stride_block,
                      task_.scales_block, words);
      if (kpe_words_ == 0) continue;
      PackKey<kPairs>(tile.kpe[t], problem_.head_dim_kpe, nullptr, 0, 1, words + ckv_words_);
    }
  }

  /// What each row sees of a tile of `count` keys from `begin` on; whether that is all.
  bool FindSpans(int64_t begin, int count) const {
    const int64_t heads = problem_.num_heads;
    const auto clamp = [&](int64_t x) { return x < 0 ? 0 : x > count ? int64_t{count} : x; };
    bool is_full = true;
    for (int r = 0; r < rows_; ++r) {
      const int64_t position = task_.position + (task_.row_begin + r) / heads - begin;
      const int64_t end = problem_.causal ? clamp(position + 1) : count;
      const int64_t first = problem_.window_left >= 0 ? clamp(position - problem_.window_left) : 0;
      is_full = is_full && first == 0 && end == count;
      s_.begins[r] = static_cast<float>(first);
      s_.ends[r] = static_cast<float>(end);
    }
    for (int r = rows_; r < PaddedRows(); ++r) s_.begins[r] = s_.ends[r] = 0;
    return is_full;
  }

  /// `count` keys from token `first` on: words of both parts, and distances to the next token's.
  struct KeyRows {
    int first;
    int count;
    const float* ckv;
    int64_t ckv_stride;
    const float* kpe;
    int64_t kpe_stride;
  };
  template <class Math>
  void MultiplyKeyRows(const KeyRows& keys) const {
    const int words = ckv_words_ + kpe_words_;
    for (int row = 0; row < rows_; row += kMlaPanel) {
      const int panel = row / kMlaPanel;
      const float* q = s_.q + int64_t{panel} * words * kMlaPanel;
      float* scores = s_.scores + (int64_t{panel} * kMlaKvTile + keys.first) * kMlaPanel;
      const int cols = PaddedRows() - row < kMlaPanel ? PaddedRows() - row : kMlaPanel;
      Multiply<Math>(
          {keys.ckv, keys.ckv_stride, q, kMlaPanel, ckv_words_, scores, kMlaPanel, nullptr},
          keys.count, cols);
      if (kpe_words_ == 0) continue;
      Multiply<Math>({keys.kpe, keys.kpe_stride, q + ckv_words_ * kMlaPanel, kMlaPanel, kpe_words_,
                      scores, kMlaPanel, ckv_over_kpe_},
                     keys.count, cols);
    }
  }

  template <class Math>
  void MultiplyKeys(const MlaTile<T>& tile) const {
    if constexpr (!kInPlace) {
      LoadKeys(tile);
      return MultiplyKeyRows<Math>(
          {0, tile.count, s_.k, key_stride_, s_.k + ckv_words_, key_stride_});
    } else {
      for (int t = 0, n = 0; t < tile.count; t += n) {
        n = EvenlySpaced(tile, t);
        const int next = n > 1 ? t + 1 : t;
        MultiplyKeyRows<Math>(
            {t, n, reinterpret_cast<const float*>(tile.ckv[t]), (tile.ckv[next] - tile.ckv[t]) / 2,
             reinterpret_cast<const float*>(tile.kpe[t]), (tile.kpe[next] - tile.kpe[t]) / 2});
      }
    }
  }

  /// o = alpha · o + p · v, a few columns at a time, while the next tile's keys are fetched.
  template <class Math>
  void MultiplyValues(const AttentionState& state, const float* v, int64_t v_stride, int steps,
                      const MlaTile<T>& next) const {
    constexpr int kColumns = kBlockVectors * F32::kWidth;
    const int dim = problem_.head_dim_ckv;
    const int64_t stride = PaddedDim(dim);
    const int num_parts = (dim + kColumns - 1) / kColumns;
    const int keys_per_part = (next.count + num_parts - 1) / num_parts;
    for (int part = 0; part < num_parts; ++part) {
      for (int i = 0; i < keys_per_part; ++i) {
        PrefetchKey(next, part * keys_per_part + i, problem_);
      }
      const int col = part * kColumns;
      const int left = (dim - col + F32::kWidth - 1) / F32::kWidth * F32::kWidth;
      Multiply<Math>({s_.p, kMlaKvTile, v + col, v_stride, steps, state.o + col, stride, s_.alpha},
                     rows_, left < kColumns ? left : kColumns);
    }
  }

  /// MultiplyValues() where a value that some row does not see is not finite: skips such products.
  void AddValuesOneByOne(const AttentionState& state, const MlaTile<T>& tile) const {
    const int dim = problem_.head_dim_ckv;
    const auto word = [](const float* words, int i) {
      if constexpr (kPairs) return ToFloat(reinterpret_cast<const BF16*>(words)[i]);
      return words[i];
    };
    for (int r = 0; r < rows_; ++r) {
      float* o = state.o + r * PaddedDim(dim);
      for (int i = 0; i < dim; ++i) o[i] *= s_.alpha[r];
      for (int t = 0; t < tile.count; ++t) {
        const float weight = word(s_.p + r * kMlaKvTile, t);
        if (weight == 0) continue;
        for (int i = 0; i < dim; ++i) o[i] += weight * word(Key(tile, t), i);
      }
    }
  }

  void Tile(const AttentionState& state, int64_t begin, const MlaTile<T>& tile,
            const MlaTile<T>& next) const {
    constexpr int kWidth = F32::kWidth;
    const int dim = problem_.head_dim_ckv;
    const auto key_at = [&](int t) { return Key(tile, t); };
#if defined(__AVX512BF16__)
    if constexpr (kPairs) MultiplyKeys<PairMath>(tile);
#endif
    if constexpr (!kPairs) MultiplyKeys<FloatMath>(tile);
    const bool is_full = FindSpans(begin, tile.count);
    for (int r = 0; r < rows_; r += kWidth) {
      float* scores = s_.scores + r / kMlaPanel * (kMlaKvTile * kMlaPanel) + r % kMlaPanel;
      SoftmaxColumn<kPairs>(
          {scores, tile.count, is_full ? nullptr : s_.begins + r, is_full ? nullptr : s_.ends + r,
           state.m + r, state.l + r, s_.alpha + r, s_.p + r * kMlaKvTile},
          scale_);
    }
    if (!is_full && !MlaValuesAreFinite<kPairs>(key_at, tile.count, dim)) {
      return AddValuesOneByOne(state, tile);
    }
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      PairValues(key_at, tile.count, dim, s_.v);
      MultiplyValues<PairMath>(state, s_.v, PaddedDim(dim), (tile.count + 1) / 2, next);
    }
#endif
    if constexpr (!kPairs) {
      MultiplyValues<FloatMath>(state, s_.k, key_stride_, tile.count, next);
    }
  }

  const MlaTask& task_;
  const MlaProblem& problem_;
  const MlaScratch& s_;
  int rows_;
  int ckv_words_;
  int kpe_words_;
  int64_t key_stride_;
  RowScores scale_;
  float ckv_over_kpe_[kMlaKvTile];
};

template <class T, bool kExactInBf16>
void RunAs(const MlaTask& task) {
#if defined(__AVX512BF16__)
  if constexpr (kExactInBf16) {
    if (task.problem->dtype_q == DType::kBF16) return MlaPiece<T, true>(task).Run();
  }
#endif
  MlaPiece<T, false>(task).Run();
}

void Run(const MlaTask& task) {
  switch (task.problem->dtype_kv) {
    case DType::kF32:
      return RunAs<float, false>(task);
    case DType::kF16:
      return RunAs<F16, false>(task);
    case DType::kE4M3:
      return RunAs<E4M3, true>(task);
    case DType::kE5M2:
      return RunAs<E5M2, true>(task);
    case DType::kI8:
      return RunAs<int8_t, true>(task);
    default:
      return RunAs<BF16, true>(task);
  }
}

void Merge(const MlaTask& task, const AttentionState& first, int64_t stride, int num_partials) {
  const int rows = static_cast<int>(task.row_end - task.row_begin);
  for (int i = 1; i < num_partials; ++i) {
    const AttentionState next{first.o + i * stride, first.m + i * stride, first.l + i * stride};
    Fold(first, next, rows, PaddedDim(task.problem->head_dim_ckv));
  }
  StoreResult(task, first);
}

}  // namespace

const MlaKernels kMlaKernels{Run, Merge};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
