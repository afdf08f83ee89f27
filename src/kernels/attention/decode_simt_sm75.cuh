// SPDX-License-Identifier: Apache-2.0
// Attention of one query token per request over a paged cache, on CUDA cores.
//
// A block walks over the pieces of its slot (keys of a request) for a tile of query heads that
// share a KV head. Each warp takes its own tokens, each group of token_lanes lanes a token at a
// time, each lane the same columns of all of them: so a lane copies to shared memory what it alone
// reads, a ring of stages deep, and waits for nobody. Outputs live in registers. The partial dot
// products of rows_tile x tokens_tile scores are summed over the lanes in such a way that each lane
// ends with its own scores, takes their exponentials once, and hands them out through shared
// memory. Pieces of a split request leave partial results, which the last block to come merges in
// order. Bound by bytes for one head per KV head, by multiply-adds from four on.
#pragma once

#include "kernels/attention/decode_spec.h"
#include "kernels/ptx/atom.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::decode_simt {

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

template <DecodeSpec kSpec>
struct Traits {
  static constexpr DecodeSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kLanes = kSpec.token_lanes;
  static constexpr int kGroups = 32 / kLanes;  ///< tokens that a warp works on side by side
  static constexpr int kRows = kSpec.rows_tile;
  static constexpr int kTokens = kSpec.tokens_tile;
  static constexpr int kWarpTokens = kGroups * kTokens;
  static constexpr int kKvTile = DecodeKvTile(kSpec);
  static constexpr int kQkAccesses = kSpec.qk_accesses;
  static constexpr int kVoAccesses = kSpec.vo_accesses;
  static constexpr int kQkVec = kVec * kQkAccesses;  ///< columns of a key that a lane holds
  static constexpr int kVoVec = kVec * kVoAccesses;
  static constexpr int kColumns = DecodeColumns(kSpec);
  static constexpr int kQueryVec = kVec < 4 ? kVec : 4;  ///< elements of an access to a query
  static constexpr int kStages = kSpec.num_stages;
  static constexpr int kAccessBytes = kVec * tile::SizeBytes(kSpec.dtype_kv);
  static constexpr int kScores = kRows * kTokens;
  /// Scores that each lane keeps after their sums, and lanes that keep the same ones.
  static constexpr int kLaneScores = kScores > kLanes ? kScores / kLanes : 1;
  static constexpr int kReplicas = kScores > kLanes ? 1 : kLanes / kScores;
  static_assert(kLanes == 8 || kLanes == 16 || kLanes == 32, "token_lanes must be 8, 16 or 32");
  static_assert(kRows == 1 || kRows == 2 || kRows == 4 || kRows == 8,
                "rows_tile must be 1, 2, 4 or 8");
  static_assert(kTokens == 1 || kTokens == 2 || kTokens == 4 || kTokens == 8,
                "tokens_tile must be 1, 2, 4 or 8");
  static_assert(kRows * kQkVec <= 128 && kRows * kVoVec <= 128,
                "rows_tile columns of a lane must fit into registers: at most 128");
  static_assert(kStages >= 2, "num_stages must be 2 or more");

  struct SharedStorage {
    /// The ring [stage, access, thread], or [warp, row, column] floats of a merge.
    alignas(16) char ring[DecodeRingBytes(kSpec)];
    float q[kRows][kQkVec / kQueryVec][kLanes][kQueryVec];
    float weights[kDecodeWarps][kWarpTokens][kRows];
    float factors[kDecodeWarps][kRows];
    float maxima[kDecodeWarps][kRows];
    float sums[kDecodeWarps][kRows];
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
  using Access = tile::Elements<kSpec.dtype_kv, kVec>;
};

/// Where a block's heads are.
struct Tile {
  int index;  ///< blockIdx.y
  int kv_head;
  int first_row;  ///< query head of the first row
  int num_rows;   ///< rows beyond are padding
};

__device__ __forceinline__ float ValueOf(const DecodeHeadValues& values, int64_t head) {
  return values.data[head * values.stride];
}

/// A thread's part of the loop over a piece.
template <class T>
struct Lane {
  int warp;
  int lane;  ///< within the token's group
  int group;
  int row;          ///< of the scores that it keeps
  int first_token;  ///< of the scores that it keeps, within the stage
};

template <class T>
__device__ __forceinline__ Lane<T> MakeLane() {
  Lane<T> l;
  const int in_warp = static_cast<int>(threadIdx.x) % 32;
  l.warp = static_cast<int>(threadIdx.x) / 32;
  l.lane = in_warp % T::kLanes;
  l.group = in_warp / T::kLanes;
  // SumScattered() gives lane bit 0 the highest bit of a score's index (row, token), and so on.
  constexpr int kBits = Log2(T::kScores < T::kLanes ? T::kScores : T::kLanes);
  int index = 0;
#pragma unroll
  for (int bit = 0; bit < kBits; ++bit) {
    index |= ((l.lane >> bit) & 1) << (Log2(T::kScores) - 1 - bit);
  }
  l.row = index / T::kTokens;
  l.first_token = index % T::kTokens;
  return l;
}

/// The running softmax of a warp. Maxima and sums are those of the row that the lane keeps.
template <class T>
struct State {
  float o[T::kRows][T::kVoVec];
  float max;
  float sum;  ///< of the lane's own scores
};

/// Where the tokens are that a thread copies next.
template <class T>
struct PageIndices {
  int32_t page[T::kTokens];
  int32_t slot[T::kTokens];
};

/// The token of a stage that a group copies as its t-th.
template <class T>
__device__ __forceinline__ int TokenOf(const Lane<T>& l, int t) {
  return l.warp * T::kWarpTokens + t * T::kGroups + l.group;
}

/// Tokens behind the end are taken from the last one, and masked later.
template <class T>
__device__ __forceinline__ int ClampedToken(const DecodePiece& piece, const Lane<T>& l, int begin,
                                            int t) {
  return min(begin + TokenOf(l, t), piece.kv_end - 1);
}

template <class T>
__device__ __forceinline__ PageIndices<T> LoadPages(const DecodeParams& p, const DecodePiece& piece,
                                                    const Lane<T>& l, int begin) {
  PageIndices<T> pages;
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    const uint32_t token = static_cast<uint32_t>(ClampedToken<T>(piece, l, begin, t));
    if (p.pages == nullptr) {
      pages.page[t] = 0;
      pages.slot[t] = piece.page_begin + static_cast<int>(token);
      continue;
    }
    const uint32_t page = p.page_size.Divide(token);
    pages.page[t] = p.pages[(piece.page_begin + static_cast<int64_t>(page)) * p.pages_stride];
    pages.slot[t] = static_cast<int>(token - page * p.page_size.divisor);
  }
  return pages;
}

template <class T>
__device__ __forceinline__ char* StageOf(char* ring, int stage) {
  return ring + stage * DecodeStageBytes(T::kS);
}

/// This thread's place for one of its accesses.
template <class T>
__device__ __forceinline__ char* RingAt(char* ring_stage, int access) {
  return ring_stage + (access * kDecodeThreads + static_cast<int>(threadIdx.x)) * T::kAccessBytes;
}

/// Elements from the cache's begin to a token.
template <class T>
__device__ __forceinline__ int64_t OffsetOf(const DecodeCacheStrides& strides, int32_t page,
                                            int32_t slot) {
  if constexpr (T::kS.wide_strides) return page * strides.page + slot * strides.token;
  return int64_t{page} * static_cast<int32_t>(strides.page) +
         int64_t{slot} * static_cast<int32_t>(strides.token);
}

/// Starts the copy of a stage: keys of all its tokens, then values. `k` and `v` point at the lane's
/// column of the KV head.
template <class T>
__device__ __forceinline__ void CopyStage(const DecodeParams& p, const Lane<T>& l,
                                          const PageIndices<T>& pages, char* ring_stage,
                                          const char* k, const char* v) {
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    const int64_t k_at = OffsetOf<T>(p.k_strides, pages.page[t], pages.slot[t]);
    const int64_t v_at = OffsetOf<T>(p.v_strides, pages.page[t], pages.slot[t]);
#pragma unroll
    for (int i = 0; i < T::kQkAccesses; ++i) {
      const int column = i * T::kLanes * T::kVec;
      if (column + l.lane * T::kVec >= p.head_dim_qk) continue;
      ptx::cp_async<T::kAccessBytes>(RingAt<T>(ring_stage, t * T::kQkAccesses + i),
                                     tile::At<T::kS.dtype_kv>(k, k_at + column));
    }
#pragma unroll
    for (int i = 0; i < T::kVoAccesses; ++i) {
      const int column = i * T::kLanes * T::kVec;
      if (column + l.lane * T::kVec >= p.head_dim_vo) continue;
      ptx::cp_async<T::kAccessBytes>(
          RingAt<T>(ring_stage, T::kTokens * T::kQkAccesses + t * T::kVoAccesses + i),
          tile::At<T::kS.dtype_kv>(v, v_at + column));
    }
  }
}

/// A token's columns of this lane from the ring.
template <class T, int kAccesses>
__device__ __forceinline__ void ReadRing(char* ring_stage, int first_access,
                                         float (&x)[kAccesses * T::kVec]) {
#pragma unroll
  for (int i = 0; i < kAccesses; ++i) {
    typename T::Access access;
    float part[T::kVec];
    access.Load(RingAt<T>(ring_stage, first_access + i));
    access.Widen(part);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[i * T::kVec + j] = part[j];
  }
}

/// The lane's scores of a stage, in base-2 logits; -inf behind the piece's end.
template <class T>
__device__ __forceinline__ void Score(const DecodeParams& p, const DecodePiece& piece,
                                      const Lane<T>& l, typename T::SharedStorage& shared,
                                      int stage, int begin, float (&scores)[T::kLaneScores]) {
  float k[T::kTokens][T::kQkVec];
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    ReadRing<T, T::kQkAccesses>(StageOf<T>(shared.ring, stage), t * T::kQkAccesses, k[t]);
  }
  float dots[T::kScores] = {};
#pragma unroll
  for (int row = 0; row < T::kRows; ++row) {
#pragma unroll
    for (int i = 0; i < T::kQkVec / T::kQueryVec; ++i) {
      float q[T::kQueryVec];
      tile::Elements<DType::kF32, T::kQueryVec> access;
      access.Load(shared.q[row][i][l.lane]);
      access.Widen(q);
#pragma unroll
      for (int t = 0; t < T::kTokens; ++t) {
#pragma unroll
        for (int j = 0; j < T::kQueryVec; ++j) {
          dots[row * T::kTokens + t] += q[j] * k[t][i * T::kQueryVec + j];
        }
      }
    }
  }
  tile::SumScattered<T::kScores, T::kLanes>(dots);
#pragma unroll
  for (int i = 0; i < T::kLaneScores; ++i) {
    float score = dots[i];
    if constexpr (T::kS.soft_cap) score = tile::SoftCap(score, p.soft_cap) * tile::kLog2E;
    const bool is_key = begin + TokenOf(l, l.first_token + i) < piece.kv_end;
    scores[i] = is_key ? score : tile::kNegativeInfinity;
  }
}

/// Takes the exponentials of a stage's scores, hands them out, and rescales the outputs.
template <class T>
__device__ __forceinline__ void UpdateSoftmax(const Lane<T>& l,
                                              const float (&scores)[T::kLaneScores],
                                              typename T::SharedStorage& shared, State<T>& state) {
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
__device__ __forceinline__ void AddValues(const Lane<T>& l, int stage,
                                          typename T::SharedStorage& shared, State<T>& state) {
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    float v[T::kVoVec];
    ReadRing<T, T::kVoAccesses>(StageOf<T>(shared.ring, stage),
                                T::kTokens * T::kQkAccesses + t * T::kVoAccesses, v);
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

/// Queries of the tile, scaled so that scores come out as base-2 logits (or as what the cap takes);
/// zeros where there is no row or column.
template <class T>
__device__ __forceinline__ void LoadQuery(const DecodeParams& p, const Tile& tile,
                                          const DecodePiece& piece,
                                          typename T::SharedStorage& shared) {
  float scale = p.sm_scale;
  if (p.k_scales.data != nullptr) scale *= ValueOf(p.k_scales, tile.kv_head);
  if constexpr (!T::kS.soft_cap) scale *= tile::kLog2E;
  constexpr int kWidth = T::kLanes * T::kQkVec;
  float* q = &shared.q[0][0][0][0];
  for (int i = static_cast<int>(threadIdx.x); i < T::kRows * kWidth; i += kDecodeThreads) {
    // Element i of shared memory is element `part` of a lane's access; see SharedStorage.
    const int row = i / kWidth;
    const int access = i % kWidth / (T::kLanes * T::kQueryVec) * T::kQueryVec;
    const int lane = i % (T::kLanes * T::kQueryVec) / T::kQueryVec;
    const int part = access + i % T::kQueryVec;
    const int column = (part / T::kVec * T::kLanes + lane) * T::kVec + part % T::kVec;
    const bool is_there = row < tile.num_rows && column < p.head_dim_qk;
    const int64_t at =
        piece.request * p.q_stride_request + (tile.first_row + row) * p.q_stride_head + column;
    q[i] = 0;
    if (!is_there) continue;
    q[i] = scale * tile::LoadElement<T::kS.dtype_q>(p.q, at);
    if (p.q_scales.data != nullptr) q[i] *= ValueOf(p.q_scales, tile.first_row + row);
  }
  __syncthreads();
}

/// Columns that do not exist read as zeros.
template <class T>
__device__ __forceinline__ void ClearRing(const DecodeParams& p, const Lane<T>& l, char* ring) {
#pragma unroll
  for (int i = 0; i < T::kQkAccesses; ++i) {
    if ((i * T::kLanes + l.lane) * T::kVec < p.head_dim_qk) continue;
    for (int stage = 0; stage < T::kStages; ++stage) {
      for (int t = 0; t < T::kTokens; ++t) {
        ptx::st<T::kAccessBytes>(RingAt<T>(StageOf<T>(ring, stage), t * T::kQkAccesses + i),
                                 ptx::Words<T::kAccessBytes>{});
      }
    }
  }
}

/// All keys of a piece, a state per warp.
template <class T>
__device__ __forceinline__ void RunKeys(const DecodeParams& p, const Tile& tile,
                                        const DecodePiece& piece, const Lane<T>& l,
                                        typename T::SharedStorage& shared, State<T>& state) {
  const int64_t column = l.lane * T::kVec;
  const char* k = tile::At<T::kS.dtype_kv>(p.k, tile.kv_head * p.k_strides.head + column);
  const char* v = tile::At<T::kS.dtype_kv>(p.v, tile.kv_head * p.v_strides.head + column);
  ClearRing<T>(p, l, shared.ring);
  PageIndices<T> pages = LoadPages<T>(p, piece, l, piece.kv_begin);
  int copied = piece.kv_begin;
  const auto copy = [&](int stage) {
    if (copied < piece.kv_end) {
      const PageIndices<T> these = pages;
      if (copied + T::kKvTile < piece.kv_end) {
        pages = LoadPages<T>(p, piece, l, copied + T::kKvTile);
      }
      CopyStage<T>(p, l, these, StageOf<T>(shared.ring, stage), k, v);
      copied += T::kKvTile;
    }
    ptx::cp_async_commit_group();
  };
  // The first turns only fill the ring: one loop, so that the copy is compiled once.
  int stage = 0;
#pragma unroll 1
  for (int begin = piece.kv_begin - (T::kStages - 1) * T::kKvTile; begin < piece.kv_end;
       begin += T::kKvTile) {
    ptx::cp_async_wait_group<T::kStages - 2>();
    copy(stage == 0 ? T::kStages - 1 : stage - 1);  // into what was read last
    if (begin >= piece.kv_begin) {
      if (begin == piece.kv_begin) LoadQuery<T>(p, tile, piece, shared);
      float scores[T::kLaneScores];
      Score<T>(p, piece, l, shared, stage, begin, scores);
      UpdateSoftmax<T>(l, scores, shared, state);
      AddValues<T>(l, stage, shared, state);
    }
    stage = stage + 1 == T::kStages ? 0 : stage + 1;
  }
  ptx::cp_async_wait_group<0>();
}

/// Leaves each warp's state in shared memory.
template <class T>
__device__ __forceinline__ void ShareState(const Lane<T>& l, typename T::SharedStorage& shared,
                                           State<T>& state) {
#pragma unroll
  for (int mask = T::kRows; mask < 32; mask *= 2) {
    state.sum += __shfl_xor_sync(tile::kFullWarp, state.sum, mask);
  }
  __syncthreads();  // nobody reads the ring any more
  float* rows = reinterpret_cast<float*>(shared.ring) + l.warp * T::kRows * T::kColumns;
#pragma unroll
  for (int row = 0; row < T::kRows; ++row) {
#pragma unroll
    for (int j = 0; j < T::kVoVec; ++j) {
      float x = state.o[row][j];
#pragma unroll
      for (int mask = T::kLanes; mask < 32; mask *= 2) {
        x += __shfl_xor_sync(tile::kFullWarp, x, mask);
      }
      const int column = (j / T::kVec * T::kLanes + l.lane) * T::kVec + j % T::kVec;
      if (l.group == 0) rows[row * T::kColumns + column] = x;
    }
  }
  if (l.group == 0) {
    shared.maxima[l.warp][l.row] = state.max;
    shared.sums[l.warp][l.row] = state.sum * (1.0f / T::kReplicas);
  }
  __syncthreads();
}

/// Writes kCount columns of a row's output from weighted sums of values, and its LSE.
template <class T, int kCount>
__device__ __forceinline__ void WriteOutput(const DecodeParams& p, const Tile& tile,
                                            int64_t request, int row, int column,
                                            const float (&o)[kCount], float max, float sum) {
  const int64_t head = tile.first_row + row;
  float scale = p.v_scale;
  if (p.v_scales.data != nullptr) scale *= ValueOf(p.v_scales, tile.kv_head);
  if (p.sinks.data != nullptr) {
    const float sink = ValueOf(p.sinks, head) * tile::kLog2E;
    const float with_sink = fmaxf(max, sink);
    const float factor = tile::Exp2Guarded(max, with_sink);
    scale *= factor;
    sum = sum * factor + tile::Exp2Guarded(sink, with_sink);
    max = with_sink;
  }
  const int64_t at = request * p.out_stride_request + head * p.out_stride_head + column;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    tile::StoreElement<T::kS.dtype_out>(p.out, at + j, sum > 0 ? o[j] * scale / sum : 0.0f);
  }
  if (column == 0 && p.lse != nullptr) {
    p.lse[request * p.lse_stride_request + head * p.lse_stride_head] = tile::LogSumExp2(max, sum);
  }
}

/// The warps' states as one: an output, or a partial result.
template <class T>
__device__ __forceinline__ void MergeWarps(const DecodeParams& p, const Tile& tile,
                                           const DecodePiece& piece,
                                           typename T::SharedStorage& shared) {
  const float* rows = reinterpret_cast<const float*>(shared.ring);
  const int64_t partial = (int64_t{piece.partial} * gridDim.y + tile.index) * T::kRows;
  for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * p.head_dim_vo;
       i += kDecodeThreads) {
    const int row = i / p.head_dim_vo;
    const int column = i - row * p.head_dim_vo;
    float max = shared.maxima[0][row];
#pragma unroll
    for (int w = 1; w < kDecodeWarps; ++w) max = fmaxf(max, shared.maxima[w][row]);
    float sum = 0;
    float o[1] = {};
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float weight = tile::Exp2Guarded(shared.maxima[w][row], max);
      sum += weight * shared.sums[w][row];
      o[0] += weight * rows[(w * T::kRows + row) * T::kColumns + column];
    }
    if (piece.partial < 0) {
      WriteOutput<T>(p, tile, piece.request, row, column, o, max, sum);
    } else {
      p.partial_o[(partial + row) * p.head_dim_vo + column] = o[0];
      if (column == 0) {
        p.partial_ml[(partial + row) * 2] = max;
        p.partial_ml[(partial + row) * 2 + 1] = sum;
      }
    }
  }
}

/// Whether this block is the last of its request and tile to leave a partial result.
template <class T>
__device__ __forceinline__ bool IsLast(const DecodeParams& p, const Tile& tile,
                                       const DecodePiece& piece,
                                       typename T::SharedStorage& shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t limit = static_cast<uint32_t>(piece.num_partials) - 1;
    uint32_t* counter = p.counters + int64_t{piece.merge} * gridDim.y + tile.index;
    shared.is_last = ptx::atom_inc_acq_rel(counter, limit) == limit;
  }
  __syncthreads();
  __threadfence();
  return shared.is_last != 0;
}

/// The first partial result of a row; the next ones follow at `step` rows.
struct PartialRows {
  int64_t first;
  int64_t step;
};

template <class T>
__device__ __forceinline__ PartialRows PartialsOf(const Tile& tile, const DecodePiece& piece,
                                                  int row) {
  const int64_t step = int64_t{gridDim.y} * T::kRows;
  return {piece.first_partial * step + tile.index * T::kRows + row, step};
}

/// Maxima and sums of rows over all partial results: a warp a row, into those of warp 0.
template <class T>
__device__ __forceinline__ void MergeSums(const DecodeParams& p, const Tile& tile,
                                          const DecodePiece& piece,
                                          typename T::SharedStorage& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < tile.num_rows; row += kDecodeWarps) {
    const PartialRows at = PartialsOf<T>(tile, piece, row);
    const float2* ml = reinterpret_cast<const float2*>(p.partial_ml) + at.first;
    float max = tile::kNegativeInfinity;
    float sum = 0;
    for (int i = lane; i < piece.num_partials; i += 32) {
      const float2 x = __ldcg(ml + i * at.step);
      const float larger = fmaxf(max, x.x);
      sum = sum * tile::RescaleFactor(max, larger) + x.y * tile::Exp2Guarded(x.x, larger);
      max = larger;
    }
    const float largest = tile::WarpMax(max);
    sum = tile::WarpSum(sum * tile::Exp2Guarded(max, largest));
    if (lane == 0) {
      shared.maxima[0][row] = largest;
      shared.sums[0][row] = sum;
    }
  }
  __syncthreads();
}

/// Partial results of a request, in the order of its keys.
template <class T>
__device__ __forceinline__ void MergePartials(const DecodeParams& p, const Tile& tile,
                                              const DecodePiece& piece,
                                              typename T::SharedStorage& shared) {
  MergeSums<T>(p, tile, piece, shared);
  constexpr int kUnroll = 16;  // loads on their way: they take most of the time
  const int row_vectors = p.head_dim_vo / 4;
  for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * row_vectors;
       i += kDecodeThreads) {
    const int row = i / row_vectors;
    const int column = (i - row * row_vectors) * 4;
    const PartialRows at = PartialsOf<T>(tile, piece, row);
    const float max = shared.maxima[0][row];
    float o[4] = {};
#pragma unroll 1
    for (int begin = 0; begin < piece.num_partials; begin += kUnroll) {
      float4 x[kUnroll];
      float m[kUnroll];
#pragma unroll
      for (int n = 0; n < kUnroll; ++n) {
        const int64_t partial = at.first + min(begin + n, piece.num_partials - 1) * at.step;
        m[n] = __ldcg(p.partial_ml + partial * 2);
        x[n] =
            __ldcg(reinterpret_cast<const float4*>(p.partial_o + partial * p.head_dim_vo + column));
      }
#pragma unroll
      for (int n = 0; n < kUnroll; ++n) {
        const float weight = begin + n < piece.num_partials ? tile::Exp2Guarded(m[n], max) : 0.0f;
        o[0] += weight * x[n].x;
        o[1] += weight * x[n].y;
        o[2] += weight * x[n].z;
        o[3] += weight * x[n].w;
      }
    }
    WriteOutput<T>(p, tile, piece.request, row, column, o, max, shared.sums[0][row]);
  }
}

template <class T>
__device__ __forceinline__ void RunPiece(const DecodeParams& p, const Tile& tile,
                                         const DecodePiece& piece, const Lane<T>& l,
                                         typename T::SharedStorage& shared) {
  State<T> state;
  state.max = tile::kNegativeInfinity;
  state.sum = 0;
#pragma unroll
  for (int row = 0; row < T::kRows; ++row) {
#pragma unroll
    for (int j = 0; j < T::kVoVec; ++j) state.o[row][j] = 0;
  }
  if (piece.kv_begin < piece.kv_end) RunKeys<T>(p, tile, piece, l, shared, state);
  ShareState<T>(l, shared, state);
  MergeWarps<T>(p, tile, piece, shared);
  if (piece.partial >= 0 && IsLast<T>(p, tile, piece, shared)) {
    MergePartials<T>(p, tile, piece, shared);
  }
  __syncthreads();  // before the ring is filled again
}

template <DecodeSpec kSpec>
__device__ __forceinline__ void Run(const DecodeParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  Tile tile;
  tile.index = static_cast<int>(blockIdx.y);
  tile.kv_head = tile.index / p.row_tiles;
  const int row = (tile.index - tile.kv_head * p.row_tiles) * T::kRows;
  tile.first_row = tile.kv_head * p.group_size + row;
  tile.num_rows = min(T::kRows, p.group_size - row);
  const Lane<T> l = MakeLane<T>();
  const int end = p.slot_begin[blockIdx.x + 1];
#pragma unroll 1
  for (int i = p.slot_begin[blockIdx.x]; i < end; ++i) {
    const DecodePiece piece = p.pieces[i];
    RunPiece<T>(p, tile, piece, l, shared);
  }
}

}  // namespace flashinfer::kernels::decode_simt
