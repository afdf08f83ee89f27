// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores: a tile of keys. Each warp of those that share rows computes the
// scores of some keys; they agree on maxima and leave weights for each other in shared memory; then
// each multiplies all weights with its columns of values.
#pragma once

#include "kernels/attention/mla_traits.cuh"
#include "kernels/attention/prefill_score.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::mla_mma {

template <class T>
using State = prefill_mma::State<T>;
template <class T>
using Scores = float[T::kRowTiles][T::kKeyTiles][4];

/// scores += Q K^T over kSteps steps of 16 columns; addresses are those of the first.
template <class T, int kSteps>
__device__ __forceinline__ void MultiplySteps(uint32_t q_row, uint32_t k_row, Scores<T>& scores) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    uint32_t a[T::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < T::kRowTiles; ++m) {
      ptx::ldmatrix(a[m], q_row + 2 * (m * 16 * T::kStride + step * 16));
    }
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; n += 2) {
      uint32_t b[4];
      const uint32_t at = k_row + 2 * (n * 8 * T::kStride + step * 16);
      if constexpr (T::kKeyTiles == 1) {
        uint32_t one[2];
        ptx::ldmatrix(one, at);
        b[0] = one[0], b[1] = one[1];
      } else {
        ptx::ldmatrix(b, at);
      }
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
        prefill_mma::Multiply<T>(scores[m][n], a[m], b[0], b[1]);
        if constexpr (T::kKeyTiles > 1) {
          prefill_mma::Multiply<T>(scores[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void ClearScores(Scores<T>& scores) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
    }
  }
}

/// Scores of the warp's rows and keys, in units of ckv's scale.
template <class T>
__device__ __forceinline__ void MultiplyKeys(const MlaParams& params, const Warp<T>& w,
                                             const uint16_t* q, const uint16_t* k,
                                             const float* scales, Scores<T>& scores) {
  constexpr int kCkvSteps = T::kCkvColumns / 16;
  constexpr int kKpeSteps = T::kColumns / 16 - kCkvSteps;
  const uint32_t q_row =
      ptx::shared_address(q) + 2 * ((w.first_row + w.lane % 16) * T::kStride + w.lane / 16 * 8);
  const int key = w.first_key() + (T::kKeyTiles == 1 ? 0 : w.lane / 16 * 8) + w.lane % 8;
  const uint32_t k_row = ptx::shared_address(k) + 2 * (key * T::kStride + w.lane / 8 % 2 * 8);
  ClearScores<T>(scores);
  if constexpr (kKpeSteps > 0) {
    MultiplySteps<T, kKpeSteps>(q_row + 2 * T::kCkvColumns, k_row + 2 * T::kCkvColumns, scores);
#pragma unroll
    for (int i = 0; i < T::kRowTiles * T::kKeyTiles * 4; ++i) {
      scores[i / (T::kKeyTiles * 4)][i / 4 % T::kKeyTiles][i % 4] *= params.kpe_over_ckv;
    }
  }
  if constexpr (T::kScaleBlocks == 0) {
    MultiplySteps<T, kCkvSteps>(q_row, k_row, scores);
  } else {
#pragma unroll
    for (int block = 0; block < T::kScaleBlocks; ++block) {
      Scores<T> part;
      ClearScores<T>(part);
      MultiplySteps<T, T::kScaleColumns / 16>(q_row + 2 * block * T::kScaleColumns,
                                              k_row + 2 * block * T::kScaleColumns, part);
#pragma unroll
      for (int n = 0; n < T::kKeyTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int column = w.first_key() + w.ColumnOf(n) + j;
          const float scale = scales[column * T::kScaleBlocks + block];
#pragma unroll
          for (int m = 0; m < T::kRowTiles; ++m) {
            scores[m][n][j] = fmaf(part[m][n][j], scale, scores[m][n][j]);
            scores[m][n][2 + j] = fmaf(part[m][n][2 + j], scale, scores[m][n][2 + j]);
          }
        }
      }
    }
  }
}

/// Leaves the largest scores of the warp's keys for the warps that share its rows.
template <class T>
__device__ __forceinline__ void ShareMaxima(const Warp<T>& w, const Scores<T>& scores,
                                            typename T::SharedStorage& shared) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = tile::kNegativeInfinity;
#pragma unroll
      for (int n = 0; n < T::kKeyTiles; ++n) {
        max = fmaxf(max, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, 1));
      max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, 2));
      if (w.lane % 4 == 0) shared.rows[w.key_warp][w.RowOf(m, half)] = max;
    }
  }
}

/// Sums and outputs follow the rows' maxima where these grew by so much that weights relative to
/// the old ones, up to 2^kLargestWeight, would leave the range of f16. All warps that share rows
/// decide alike.
template <class T>
__device__ __forceinline__ void UpdateMaxima(const Warp<T>& w,
                                             const typename T::SharedStorage& shared,
                                             State<T>& state) {
  constexpr float kLargestWeight = 8;
  float factors[T::kRowTiles][2];
  bool rescales = false;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = state.max[m][half];
#pragma unroll
      for (int i = 0; i < T::kKeyWarps; ++i) max = fmaxf(max, shared.rows[i][w.RowOf(m, half)]);
      // Of -inf and -inf the difference is NaN, which is not larger.
      const float growth = (max - state.max[m][half]) * state.ScaleOf(m, half);
      const bool grows = growth > kLargestWeight;
      factors[m][half] = grows ? ptx::ex2_approx(-growth) : 1.0f;
      if (grows) state.max[m][half] = max;
      state.sum[m][half] *= factors[m][half];
      rescales = rescales || grows;
    }
  }
  if (!__any_sync(tile::kFullWarp, rescales)) return;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < T::kValueTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[m][n][i] *= factors[m][i / 2];
    }
  }
}

/// Where weights of a tile are, [part, row, key].
template <class T>
__device__ __forceinline__ uint16_t* WeightsOf(typename T::SharedStorage& shared, int stage) {
  return T::kWeightsInKeys ? shared.kv[stage] + T::kCkvColumns : shared.weights;
}

/// Scores become weights, for all warps that share the rows.
template <class T>
__device__ __forceinline__ void ShareWeights(const Warp<T>& w, const Scores<T>& scores,
                                             uint16_t* weights, State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; ++n) {
      uint32_t a[T::kWeightParts][T::kRowTiles][4];
      prefill_mma::PackWeights<T>(scores[m][n], state, m, 0, a);
#pragma unroll
      for (int part = 0; part < T::kWeightParts; ++part) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          *reinterpret_cast<uint32_t*>(weights + part * T::kPartStride +
                                       w.RowOf(m, half) * T::kWeightStride + w.first_key() +
                                       w.ColumnOf(n)) = a[part][m][half];
        }
      }
    }
  }
}

/// Weights of 16 keys as A fragments; the parts of one add up to it.
template <class T>
using Weights = uint32_t[T::kWeightParts][T::kRowTiles][4];

/// b = a times the scales of a block of columns, of which `scales` is the first key's.
template <class T>
__device__ __forceinline__ void ScaleWeights(const Warp<T>& w, const float* scales,
                                             const Weights<T>& a, Weights<T>& b) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float weight[2];
      tile::WidenWord<T::kCompute>(a[0][m][i], weight);
#pragma unroll
      for (int part = 1; part < T::kWeightParts; ++part) {
        float rest[2];
        tile::WidenWord<T::kCompute>(a[part][m][i], rest);
        weight[0] += rest[0], weight[1] += rest[1];
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float scale = scales[(w.ColumnOf(i / 2) + j) * T::kScaleBlocks];
        // The scale of a key that the row does not see may be anything.
        weight[j] = weight[j] == 0 ? 0.0f : weight[j] * scale;
      }
#pragma unroll
      for (int part = 0; part < T::kWeightParts; ++part) {
        b[part][m][i] = prefill_mma::Pack<T>(weight[0], weight[1]);
        float rounded[2];
        tile::WidenWord<T::kCompute>(b[part][m][i], rounded);
        weight[0] -= rounded[0], weight[1] -= rounded[1];
      }
    }
  }
}

/// Weights of the warp's rows that lie in shared memory.
template <class T>
struct SharedWeights {
  uint32_t row;

  __device__ __forceinline__ SharedWeights(const Warp<T>& w, const uint16_t* weights)
      : row(ptx::shared_address(weights) +
            2 * ((w.first_row + w.lane % 16) * T::kWeightStride + w.lane / 16 * 8)) {}
  __device__ __forceinline__ void operator()(int step, Weights<T>& a) const {
#pragma unroll
    for (int part = 0; part < T::kWeightParts; ++part) {
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
        ptx::ldmatrix(a[part][m],
                      row + 2 * (part * T::kPartStride + m * 16 * T::kWeightStride + step * 16));
      }
    }
  }
};

/// o += weights times the warp's columns of values; weights_of(step, a) gives those of 16 keys.
template <class T, class WeightsOf>
__device__ __forceinline__ void MultiplyValues(const Warp<T>& w, const uint16_t* kv,
                                               const float* scales, WeightsOf weights_of,
                                               State<T>& state) {
  if (w.column_begin >= T::kCkvColumns) return;
  constexpr bool kHasScales = T::kScaleBlocks > 0;
  constexpr bool kIsOneBlock = kHasScales && T::kScaleColumns % T::kWarpColumns == 0;
  const uint32_t v_row =
      ptx::shared_address(kv) + 2 * (w.lane % 16 * T::kStride + w.column_begin + w.lane / 16 * 8);
#pragma unroll
  for (int step = 0; step < T::kKvTile / 16; ++step) {
    Weights<T> a;
    weights_of(step, a);
    const float* step_scales = scales + step * 16 * T::kScaleBlocks;
    if constexpr (kIsOneBlock) {
      ScaleWeights<T>(w, step_scales + w.column_begin / T::kScaleColumns, a, a);
    }
#pragma unroll
    for (int n = 0; n < T::kValueTiles; n += 2) {
      if (T::kWarpColumns * T::kColumnWarps != T::kCkvColumns &&
          w.column_begin + n * 8 >= T::kCkvColumns) {
        break;
      }
      uint32_t b[4];
      ptx::ldmatrix<4, ptx::Transposed::kYes>(b, v_row + 2 * (step * 16 * T::kStride + n * 8));
      Weights<T> scaled;
      if constexpr (kHasScales && !kIsOneBlock) {
        const int block = (w.column_begin + n * 8) / T::kScaleColumns;
        ScaleWeights<T>(w, step_scales + block, a, scaled);
      }
      const Weights<T>& weight = kHasScales && !kIsOneBlock ? scaled : a;
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
        for (int part = 0; part < T::kWeightParts; ++part) {
          prefill_mma::Multiply<T>(state.o[m][n], weight[part][m], b[0], b[1]);
          prefill_mma::Multiply<T>(state.o[m][n + 1], weight[part][m], b[2], b[3]);
        }
      }
    }
  }
}

}  // namespace flashinfer::kernels::mla_mma
