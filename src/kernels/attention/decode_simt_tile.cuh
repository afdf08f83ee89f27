// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: one stage of keys and values against the tile's queries. The partial dot
// products of rows_tile x tokens_tile scores are summed over the lanes in such a way that each lane
// ends with its own scores, takes their exponentials once, and hands them out through shared
// memory.
#pragma once

#include "kernels/attention/decode_simt_copy.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::decode_simt {

/// Queries of the tile, scaled so that scores come out as base-2 logits (or as what is
/// transformed); zeros where there is no row or column. A lane's rows are permuted: place r holds
/// row r ^ RowOf(lane), so that tile::SumScattered() keeps the first half of them at every step.
template <class T>
__device__ __forceinline__ void LoadQuery(const DecodeParams& p, const Tile& tile,
                                          const DecodePiece& piece,
                                          typename T::SharedStorage& shared) {
  float scale = p.sm_scale;
  if (p.k_scales.data != nullptr) scale *= ValueOf(p.k_scales, tile.kv_head);
  if constexpr (!T::Transforms()) scale *= tile::kLog2E;
  constexpr int kRowParts = T::kQkParts * T::kLanes;
  float* q = &shared.q[0][0][0][0];
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < T::kRows * kRowParts; i += kDecodeThreads) {
    const int lane = i % T::kLanes;
    const int row = (i / kRowParts) ^ RowOf<T>(lane);
    const int column = ColumnOf<T>(i % kRowParts / T::kLanes, lane);
    const int64_t at =
        piece.request * p.q_stride_request + (tile.first_row + row) * p.q_stride_head + column;
    float part[T::kPart] = {};
    if (row < tile.num_rows && column < p.head_dim_qk) {
      tile::Elements<T::kS.dtype_q, T::kPart> access;
      access.Load(tile::At<T::kS.dtype_q>(p.q, at));
      access.Widen(part);
      if constexpr (T::V::TransformsQuery()) {
        const RowPosition at = RowPositionOf<T>(p, tile, piece.request, tile.first_row + row);
#pragma unroll
        for (int j = 0; j < T::kPart; ++j) {
          part[j] = T::V::Query(ValuesOf<typename T::V>(p), part[j], {at, column + j});
        }
      }
    }
    float row_scale = scale;
    if (p.q_scales.data != nullptr && row < tile.num_rows) {
      row_scale *= ValueOf(p.q_scales, tile.first_row + row);
    }
#pragma unroll
    for (int j = 0; j < T::kPart; ++j) part[j] *= row_scale;
    typename T::Part access;
    access.Narrow(part);
    access.Store(q + i * T::kPart);
  }
  __syncthreads();
}

/// Columns of a token that this lane copied, kAccesses of them.
template <class T, int kAccesses>
__device__ __forceinline__ void ReadRing(const char* at, float (&x)[kAccesses * T::kVec]) {
#pragma unroll
  for (int i = 0; i < kAccesses; ++i) {
    typename T::Access access;
    float part[T::kVec];
    access.Load(at + i * kAccessStep<T>);
    access.Widen(part);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[i * T::kVec + j] = part[j];
  }
}

/// The keys of a stage.
struct StageKeys {
  const Tile& tile;
  const DecodePiece& piece;
  int begin;

  __device__ __forceinline__ int count() const { return piece.kv_end - begin; }
  /// Of a token of the stage; of what is behind the end, the last key's.
  __device__ __forceinline__ int IndexOf(int token) const {
    return min(begin + token, piece.kv_end - 1);
  }
};

/// A part of a key as the variant wants it; what does not exist stays 0.
template <class T>
__device__ __forceinline__ void TransformKey(const DecodeParams& p, const StageKeys& keys,
                                             int token, int column, float (&k)[T::kPart]) {
  const auto& values = ValuesOf<typename T::V>(p);
  const int request = keys.piece.request;
  const KeyPosition at{request, keys.IndexOf(token), values.kv_lens[request], keys.tile.kv_head,
                       column};
#pragma unroll
  for (int j = 0; j < T::kPart; ++j) {
    KeyPosition element = at;
    element.column += j;
    k[j] = column < p.head_dim_qk ? T::V::Key(values, k[j], element) : 0.0f;
  }
}

/// A natural logit of the lane's row and a token of the stage as the variant wants it.
template <class T>
__device__ __forceinline__ float VariantScore(const DecodeParams& p, const StageKeys& keys,
                                              const Lane<T>& l, int token, float logit) {
  if (token >= keys.count() || l.row >= keys.tile.num_rows) return Unseen<typename T::V>();
  const auto& values = ValuesOf<typename T::V>(p);
  const LogitPosition at{
      RowPositionOf<T>(p, keys.tile, keys.piece.request, keys.tile.first_row + l.row),
      keys.begin + token};
  const float score = T::V::Logit(values, logit, at);
  return T::V::Sees(values, at) ? score : Unseen<typename T::V>();
}

/// The lane's scores of a stage, in base-2 logits; -inf behind the piece's end.
template <class T>
__device__ __forceinline__ void Score(const DecodeParams& p, const StageKeys& keys,
                                      const Lane<T>& l, const typename T::SharedStorage& shared,
                                      const char* ring_at, float (&scores)[T::kLaneScores]) {
  float dots[T::kScores] = {};
#pragma unroll
  for (int i = 0; i < T::kQkParts; ++i) {
    float k[T::kTokens][T::kPart];
#pragma unroll
    for (int t = 0; t < T::kTokens; ++t) {
      constexpr int kParts = T::kVec / T::kPart;  // of an access
      constexpr int kPartBytes = T::kAccessBytes / kParts;
      tile::Elements<T::kS.dtype_kv, T::kPart> access;
      access.Load(ring_at + (t * T::kQkAccesses + i / kParts) * kAccessStep<T> +
                  i % kParts * kPartBytes);
      access.Widen(k[t]);
      if constexpr (T::V::TransformsKey()) {
        TransformKey<T>(p, keys, TokenOf(l, t), ColumnOf<T>(i, l.lane), k[t]);
      }
    }
#pragma unroll
    for (int row = 0; row < T::kRows; ++row) {
      float q[T::kPart];
      typename T::Part access;
      access.Load(shared.q[row][i][l.lane]);
      access.Widen(q);
#pragma unroll
      for (int t = 0; t < T::kTokens; ++t) {
#pragma unroll
        for (int j = 0; j < T::kPart; ++j) dots[row * T::kTokens + t] += q[j] * k[t][j];
      }
    }
  }
  tile::SumScattered<T::kScores, T::kLanes, T::kRows>(dots);
#pragma unroll
  for (int i = 0; i < T::kLaneScores; ++i) {
    float score = dots[i];
    if constexpr (T::kS.soft_cap) score = tile::SoftCap(score, p.soft_cap);
    const int token = TokenOf(l, l.first_token + i);
    if constexpr (T::V::IsOn()) {
      scores[i] = VariantScore<T>(p, keys, l, token, score);
    } else {
      if constexpr (T::kS.soft_cap) score *= tile::kLog2E;
      scores[i] = token < keys.count() ? score : tile::kNegativeInfinity;
    }
  }
}

/// Takes the exponentials of a stage's scores, hands them out, and rescales the outputs.
template <class T>
__device__ __forceinline__ void UpdateSoftmax(const Lane<T>& l,
                                              const float (&scores)[T::kLaneScores],
                                              typename T::SharedStorage& shared, State<T>& state) {
  if constexpr (!T::V::UsesSoftmax()) {
#pragma unroll
    for (int i = 0; i < T::kLaneScores; ++i) {
      shared.weights[l.warp][(l.first_token + i) * T::kGroups + l.group][l.row] = scores[i];
    }
    __syncwarp();
    return;
  }
  float max = scores[0];
#pragma unroll
  for (int i = 1; i < T::kLaneScores; ++i) max = fmaxf(max, scores[i]);
#pragma unroll
  for (int mask = T::kRows; mask < 32; mask *= 2) {
    max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, mask));
  }
  max = fmaxf(max, state.max);
  const float factor = tile::RescaleFactor(state.max, max);
  const bool rescales = __any_sync(tile::kFullWarp, state.max != max);
  state.max = max;
  state.sum *= factor;
#pragma unroll
  for (int i = 0; i < T::kLaneScores; ++i) {
    const float weight = tile::Exp2Guarded(scores[i], max);
    state.sum += weight;
    shared.weights[l.warp][(l.first_token + i) * T::kGroups + l.group][l.row] = weight;
  }
  if (rescales) shared.factors[l.warp][l.row] = factor;
  __syncwarp();
  if (!rescales) return;
#pragma unroll
  for (int row = 0; row < T::kRows; ++row) {
    const float row_factor = shared.factors[l.warp][row];
#pragma unroll
    for (int j = 0; j < T::kVoVec; ++j) state.o[row][j] *= row_factor;
  }
}

template <class T>
__device__ __forceinline__ void AddValues(const Lane<T>& l, const char* ring_at,
                                          const typename T::SharedStorage& shared,
                                          State<T>& state) {
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    float v[T::kVoVec];
    ReadRing<T, T::kVoAccesses>(
        ring_at + (T::kTokens * T::kQkAccesses + t * T::kVoAccesses) * kAccessStep<T>, v);
    const float(&weights)[T::kRows] = shared.weights[l.warp][t * T::kGroups + l.group];
#pragma unroll
    for (int row = 0; row < T::kRows; ++row) {
      const float weight = weights[row];
#pragma unroll
      for (int j = 0; j < T::kVoVec; ++j) state.o[row][j] += weight * v[j];
    }
  }
  __syncwarp();  // the weights may be overwritten
}

/// All keys of a piece, a state per warp.
template <class T>
__device__ __forceinline__ void RunKeys(const DecodeParams& p, const Tile& tile,
                                        const DecodePiece& piece, const Lane<T>& l,
                                        typename T::SharedStorage& shared, State<T>& state) {
  ClearRing<T>(p, l, shared.ring);
  Copier<T> copier(p, tile, piece, l);
#pragma unroll 1
  for (int stage = 0; stage < T::kStages - 1; ++stage) {
    copier.CopyNext(RingAt<T>(shared.ring, stage));
  }
  LoadQuery<T>(p, tile, piece, shared);
  int stage = 0;
#pragma unroll 1
  for (int begin = piece.kv_begin; begin < piece.kv_end; begin += T::kKvTile) {
    ptx::cp_async_wait_group<T::kStages - 2>();
    // Into what was read last.
    copier.CopyNext(RingAt<T>(shared.ring, stage == 0 ? T::kStages - 1 : stage - 1));
    const char* ring_at = RingAt<T>(shared.ring, stage);
    float scores[T::kLaneScores];
    Score<T>(p, {tile, piece, begin}, l, shared, ring_at, scores);
    UpdateSoftmax<T>(l, scores, shared, state);
    AddValues<T>(l, ring_at, shared, state);
    stage = stage + 1 == T::kStages ? 0 : stage + 1;
  }
  ptx::cp_async_wait_group<0>();
}

}  // namespace flashinfer::kernels::decode_simt
