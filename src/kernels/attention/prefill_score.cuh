// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: from dot products to weights. What is added to scores, masks, and the
// online softmax.
#pragma once

#include "kernels/attention/prefill_traits.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::prefill_mma {

/// Scales of the warp's rows.
template <class T>
__device__ __forceinline__ void InitRows(const PrefillParams& p, const Warp<T>& w,
                                         const typename T::SharedStorage& shared, State<T>& state) {
  state.scale = T::kTransforms ? p.sm_scale : p.sm_scale * tile::kLog2E;
  if constexpr (T::kCopiesQuery) return;
  state.scale = shared.row_scales[0];
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.row_scale[m][half] = shared.row_scales[w.RowOf(m, half)];
    }
  }
}

/// Whether some row of the block may not see some key of the tile.
template <class T>
__device__ __forceinline__ bool NeedsMask(const Block& block, int begin) {
  if constexpr (T::kS.mask != kMaskPlain) return true;
  return begin < block.seen_begin || begin + T::kKvTile > block.seen_end;
}

/// A row, as masks want it.
struct RowLimits {
  int first;            ///< key that the window begins with
  int last;             ///< key that it may see
  int item_begin;       ///< multi-item: keys from the prefix on are seen from here on
  const uint8_t* mask;  ///< custom: byte of its first key
  int mask_bit;         ///< of that byte
};

template <class T>
__device__ __forceinline__ RowLimits LimitsOf(const PrefillParams& p, const Block& block, Row row) {
  RowLimits l{};
  const int position = block.request.kv_len - block.request.q_len + row.token;
  l.first = p.window_left >= 0 ? position - p.window_left : 0;
  l.last = block.piece.kv_end - 1;
  if (p.causal) l.last = min(l.last, position);
  if constexpr (T::kS.mask == kMaskCustom) {
    const int64_t at = int64_t{row.token} * block.request.kv_len;
    l.mask = static_cast<const uint8_t*>(p.custom_mask) + block.request.mask_begin +
             (p.mask_is_packed ? at / 8 : at);
    l.mask_bit = static_cast<int>(at % 8);
  }
  if constexpr (T::kS.mask == kMaskMultiItem) {
    const int behind_prefix = position - block.request.prefix_len;
    if (behind_prefix >= 0) {
      l.item_begin = position + 1 -
                     p.token_pos[block.piece.request * p.token_pos_stride_request +
                                 behind_prefix * p.token_pos_stride_token];
    }
  }
  return l;
}

template <class T>
__device__ __forceinline__ bool Sees(const PrefillParams& p, const Block& block, const RowLimits& l,
                                     int key) {
  const bool is_within = key >= l.first && key <= l.last;
  if constexpr (T::kS.mask == kMaskCustom) {
    if (!is_within) return false;
    if (!p.mask_is_packed) return l.mask[key] != 0;
    return ((l.mask[(l.mask_bit + key) / 8] >> ((l.mask_bit + key) % 8)) & 1) != 0;
  }
  if constexpr (T::kS.mask == kMaskMultiItem) {
    return is_within && (key < block.request.prefix_len || key >= l.item_begin);
  }
  return is_within;
}

/// A scaled dot product as a base-2 logit; with a variant, as a natural one.
template <class T>
__device__ __forceinline__ float LogitOf(const PrefillParams& p, const Block& block, Row row,
                                         int key, float score) {
  if constexpr (T::kS.alibi) {
    score += ValueOf(p.slopes, row.head) * static_cast<float>(key - row.token);
  }
  if constexpr (T::kS.soft_cap) score = tile::SoftCap(score, p.soft_cap);
  if constexpr (T::kS.has_bias) {
    // Rows have as many biases as the longest request has keys: the last tile must not read on.
    if (key < block.request.kv_len) {
      score += tile::LoadElement<T::kS.dtype_bias>(
          p.bias, row.head * p.bias_stride_head +
                      (block.request.q_begin + int64_t{row.token}) * p.bias_stride_token + key);
    }
  }
  return T::V::IsOn() ? score : score * tile::kLog2E;
}

/// A natural logit as the variant wants it. Keys behind the piece's end are not there to be asked
/// about.
template <class T>
__device__ __forceinline__ float VariantScore(const PrefillParams& p, const Block& block, Row row,
                                              int key, float logit) {
  if (key >= block.piece.kv_end) return Unseen<typename T::V>();
  const auto& values = ValuesOf<typename T::V>(p);
  const LogitPosition at{RowPositionOf(block, row), key};
  const float score = T::V::Logit(values, logit, at);
  return T::V::Sees(values, at) ? score : Unseen<typename T::V>();
}

template <class T>
__device__ __forceinline__ void TransformScores(const PrefillParams& p, const Block& block,
                                                const Warp<T>& w, int begin, const State<T>& state,
                                                float (&scores)[T::kRowTiles][T::kKeyTiles][4]) {
  const bool needs_mask = NeedsMask<T>(block, begin);
  if (!T::kTransforms && !needs_mask) return;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = w.RowOf(m, half);
      const Row row = RowAt(p, block, min(index, block.num_rows - 1));
      const RowLimits limits = LimitsOf<T>(p, block, row);
#pragma unroll
      for (int n = 0; n < T::kKeyTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int key = begin + w.ColumnOf(n) + j;
          float& score = scores[m][n][2 * half + j];
          if constexpr (T::kTransforms) {
            score = LogitOf<T>(p, block, row, key, score * state.DotScale(m, half));
          }
          if constexpr (T::V::IsOn()) {
            score = index < block.num_rows ? VariantScore<T>(p, block, row, key, score)
                                           : Unseen<typename T::V>();
          }
          if (needs_mask && !Sees<T>(p, block, limits, key)) score = Unseen<typename T::V>();
        }
      }
    }
  }
}

/// How far a row's maximum would grow, in powers of two. Of -inf and -inf the difference is NaN,
/// which is not larger than anything.
template <class T>
__device__ __forceinline__ float Growth(const State<T>& state, int row_tile, int half, float max) {
  return (max - state.max[row_tile][half]) * state.ScaleOf(row_tile, half);
}

/// Maxima of the tile's scores; sums and outputs follow where a row's grew by so much that weights
/// relative to the old one, up to 2^kLargestWeight, would leave the range of f16. Lanes ask about
/// their own scores, and agree on a row's maximum only then.
template <class T>
__device__ __forceinline__ void UpdateMaxima(State<T>& state,
                                             const float (&scores)[T::kRowTiles][T::kKeyTiles][4]) {
  if constexpr (!T::V::UsesSoftmax()) return;
  constexpr float kLargestWeight = 8;
  float maxima[T::kRowTiles][2];
  bool rescales = false;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = state.max[m][half];
#pragma unroll
      for (int n = 0; n < T::kKeyTiles; ++n) {
        max = fmaxf(max, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      maxima[m][half] = max;
      rescales = rescales || Growth(state, m, half, max) > kLargestWeight;
    }
  }
  if (!__any_sync(tile::kFullWarp, rescales)) return;
  float factors[T::kRowTiles][2];
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = maxima[m][half];
      max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, 1));
      max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, 2));
      const float growth = Growth(state, m, half, max);
      const bool grows = growth > kLargestWeight;
      factors[m][half] = grows ? ptx::ex2_approx(-growth) : 1.0f;
      if (grows) state.max[m][half] = max;
      state.sum[m][half] *= factors[m][half];
    }
  }
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < T::kValueTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[m][n][i] *= factors[m][i / 2];
    }
  }
}

/// What a row's scaled scores are taken relative to. Before the first key that a row sees,
/// everything is -inf: a difference must not be NaN.
template <class T>
__device__ __forceinline__ float ShiftOf(const State<T>& state, int row_tile, int half) {
  const float max = state.max[row_tile][half];
  return max == tile::kNegativeInfinity ? 0.0f : -max * state.ScaleOf(row_tile, half);
}

/// Sums over a row's lanes, and maxima as base-2 logits.
template <class T>
__device__ __forceinline__ void SumRows(State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& sum = state.sum[m][half];
      sum += __shfl_xor_sync(tile::kFullWarp, sum, 1);
      sum += __shfl_xor_sync(tile::kFullWarp, sum, 2);
      state.max[m][half] *= state.ScaleOf(m, half);
    }
  }
}

/// Scores of a tile of 8 keys become weights, in half of the A fragments of 16.
template <class T>
__device__ __forceinline__ void PackWeights(const float (&scores)[4], State<T>& state, int m,
                                            int first,
                                            uint32_t (&a)[T::kWeightParts][T::kRowTiles][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float scale = state.ScaleOf(m, half);
    const float shift = ShiftOf(state, m, half);
    float x = scores[2 * half];
    float y = scores[2 * half + 1];
    if constexpr (T::V::UsesSoftmax()) {
      x = ptx::ex2_approx(fmaf(x, scale, shift));
      y = ptx::ex2_approx(fmaf(y, scale, shift));
    }
    state.sum[m][half] += x + y;
    const uint32_t packed = Pack<T>(x, y);
    a[0][m][first + half] = packed;
    if constexpr (T::kWeightParts == 2) {
      float rounded[2];
      tile::WidenWord<T::kCompute>(packed, rounded);
      a[1][m][first + half] = Pack<T>(x - rounded[0], y - rounded[1]);
    }
  }
}

}  // namespace flashinfer::kernels::prefill_mma
