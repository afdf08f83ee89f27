// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores, up to 16 rows: scores are computed a tile ahead.
//
// For scores, warps divide a tile's keys among themselves and their columns, so that each holds its
// part of the queries in registers for good. They leave sums of their columns in shared memory.
// Behind the next barrier, the only one of a tile, all warps read all scores and make the same
// weights of them, which are multiplied from registers with the warp's columns of values, while the
// next tile's scores are under way: in the same warps, or with score_warps in others, so that the
// two do not add up. A ring of stages keeps num_stages - 2 tiles on their way.
#pragma once

#include "kernels/attention/mla_load.cuh"
#include "kernels/attention/mla_raw.cuh"
#include "kernels/attention/mla_tile.cuh"

namespace flashinfer::kernels::mla_mma {

/// The warp's part of the queries, as A fragments: steps of 16 columns, those of kpe before those
/// of ckv.
template <class T>
using Queries = uint32_t[T::kPartSteps][4];

/// Scores of the warp's keys, in two sums that do not wait for each other.
template <class T>
using PartScores = float[2][T::kWarpKeyTiles][4];

template <class T>
struct Part {
  static constexpr int kKpeSteps = (T::kColumns - T::kCkvColumns) / 16;
  static constexpr int kSteps = T::kColumns / 16;
  static constexpr bool kIsUneven = kSteps % T::kPartWarps != 0;
  int index;

  /// Whether the warp has step s: the last parts of an uneven division have fewer.
  __device__ __forceinline__ bool Has(int s) const {
    return !kIsUneven || index * T::kPartSteps + s < kSteps;
  }
  /// Where step 0 would lie if step s were one of as many beside each other.
  __device__ __forceinline__ int Origin(int s) const {
    return s < kKpeSteps && index == 0 ? T::kCkvColumns : (index * T::kPartSteps - kKpeSteps) * 16;
  }
};

/// Queries that lie in a stage; `sign` is that of the scale.
template <class T>
__device__ __forceinline__ void TakeQueries(const Warp<T>& w, const uint16_t* from, float sign,
                                            Queries<T>& q) {
  const Part<T> part{w.part};
  const uint32_t row = ptx::shared_address(from) + 2 * (w.lane % 16 * T::kStride + w.lane / 16 * 8);
  const uint32_t flip = sign < 0 ? 0x80008000u : 0u;
#pragma unroll
  for (int s = 0; s < T::kPartSteps; ++s) {
    if (!part.Has(s)) break;
    ptx::ldmatrix(q[s], row + 2 * (part.Origin(s) + s * 16));
#pragma unroll
    for (uint32_t& pair : q[s]) pair ^= flip;
  }
}

/// scores += Q K^T over steps kBegin to kEnd of the warp's; step 0 would lie at `k_row`.
template <class T, int kBegin, int kEnd>
__device__ __forceinline__ void MultiplyPartSteps(const Part<T>& part, const Queries<T>& q,
                                                  uint32_t k_row, PartScores<T>& scores) {
  constexpr bool kPairs = T::kWarpKeyTiles == 1 && !Part<T>::kIsUneven;
#pragma unroll
  for (int s = kBegin; s < kEnd; ++s) {
    if (!part.Has(s)) break;
    if constexpr (kPairs) {  // 8 keys: two steps at once
      if ((s - kBegin) % 2 != 0) continue;
      if (s + 1 < kEnd) {
        uint32_t b[4];
        ptx::ldmatrix(b, k_row + 2 * s * 16);
        prefill_mma::Multiply<T>(scores[0][0], q[s], b[0], b[1]);
        prefill_mma::Multiply<T>(scores[1][0], q[s + 1], b[2], b[3]);
        continue;
      }
    }
    if constexpr (T::kWarpKeyTiles == 1) {
      uint32_t b[2];
      ptx::ldmatrix(b, k_row + 2 * s * 16);
      prefill_mma::Multiply<T>(scores[s % 2][0], q[s], b[0], b[1]);
    } else {
#pragma unroll
      for (int n = 0; n < T::kWarpKeyTiles; n += 2) {
        uint32_t b[4];
        ptx::ldmatrix(b, k_row + 2 * (n * 8 * T::kStride + s * 16));
        prefill_mma::Multiply<T>(scores[s % 2][n], q[s], b[0], b[1]);
        prefill_mma::Multiply<T>(scores[s % 2][n + 1], q[s], b[2], b[3]);
      }
    }
  }
}

/// Where scores of a tile are, [part, 8 keys, lane]: fragments of D as they are.
template <class T>
__device__ __forceinline__ float4* ScoresOf(typename T::SharedStorage& shared, int buffer) {
  return reinterpret_cast<float4*>(shared.weights) + buffer * T::kPartWarps * T::kKeyTiles * 32;
}

/// Leaves the scores of the warp's keys from its columns, in units of ckv's scale.
template <class T>
__device__ __forceinline__ void ShareScores(const MlaParams& params, const Warp<T>& w,
                                            const Queries<T>& q, const uint16_t* k, float4* to) {
  constexpr int kKpeSteps = Part<T>::kKpeSteps;
  const Part<T> part{w.part};
  const int key = T::kWarpKeyTiles == 1 ? w.lane % 8 : w.lane / 16 * 8 + w.lane % 8;
  const int column = (T::kWarpKeyTiles == 1 ? w.lane / 8 : w.lane / 8 % 2) * 8;
  const uint32_t k_row = ptx::shared_address(k) + 2 * ((w.first_key() + key) * T::kStride + column);
  PartScores<T> scores = {};
  if constexpr (kKpeSteps > 0) {
    MultiplyPartSteps<T, 0, kKpeSteps>(part, q, k_row + 2 * part.Origin(0), scores);
    const float scale = w.part == 0 ? params.kpe_over_ckv : 1.0f;
#pragma unroll
    for (int i = 0; i < 2 * T::kWarpKeyTiles * 4; ++i) {
      scores[i / (T::kWarpKeyTiles * 4)][i / 4 % T::kWarpKeyTiles][i % 4] *= scale;
    }
  }
  MultiplyPartSteps<T, kKpeSteps, T::kPartSteps>(part, q, k_row + 2 * part.Origin(kKpeSteps),
                                                 scores);
  to += (w.part * T::kKeyTiles + w.key_warp * T::kWarpKeyTiles) * 32 + w.lane;
#pragma unroll
  for (int n = 0; n < T::kWarpKeyTiles; ++n) {
    const float(&x)[4] = scores[0][n];
    const float(&y)[4] = scores[1][n];
    to[n * 32] = make_float4(x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]);
  }
}

/// Scores of all keys of a tile: sums over the parts.
template <class T>
__device__ __forceinline__ void TakeScores(const Warp<T>& w, const float4* from,
                                           Scores<T>& scores) {
#pragma unroll
  for (int n = 0; n < T::kKeyTiles; ++n) {
    float4 sum = from[n * 32 + w.lane];
#pragma unroll
    for (int part = 1; part < T::kPartWarps; ++part) {
      const float4 x = from[(part * T::kKeyTiles + n) * 32 + w.lane];
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    scores[0][n][0] = sum.x, scores[0][n][1] = sum.y;
    scores[0][n][2] = sum.z, scores[0][n][3] = sum.w;
  }
}

/// Sums, maxima and outputs of the tile in `stage` from its scores.
template <class T>
__device__ __forceinline__ void AttendAhead(const MlaParams& params, const Block& block,
                                            const Warp<T>& w, int begin, int stage,
                                            const float4* from, typename T::SharedStorage& shared,
                                            State<T>& state) {
  Scores<T> scores;
  TakeScores<T>(w, from, scores);
  prefill_mma::TransformScores<T>(params.attention, block, w, begin, state, scores);
  prefill_mma::UpdateMaxima<T>(state, scores);
  MultiplyValues<T>(
      w, shared.kv[stage], shared.scales[stage],
      [&](int step, Weights<T>& a) {
        prefill_mma::PackWeights<T>(scores[0][2 * step], state, 0, 0, a);
        prefill_mma::PackWeights<T>(scores[0][2 * step + 1], state, 0, 2, a);
      },
      state);
}

/// The page of this thread's token of the tile at `begin`.
__device__ __forceinline__ int32_t FindPage(const PrefillParams& p, const Block& block, int begin) {
  if (p.pages == nullptr) return 0;
  const int token = prefill_mma::TokenAt(block, begin);
  return prefill_mma::PageAt(p, block, p.page_size.Divide(static_cast<uint32_t>(token)));
}

/// A tile's copy, if there is the tile.
template <class T>
__device__ __forceinline__ void CopyTileIfAny(const MlaParams& params, const Block& block,
                                              typename T::SharedStorage& shared, int begin,
                                              int stage) {
  if constexpr (T::kConverts) {
    CopyRawTileIfAny<T>(params, block, shared, begin, stage);
  } else if (begin < block.piece.kv_end) {
    CopyTile<T>(params, block, shared, begin, stage);
  } else {
    ptx::cp_async_commit_group();  // waits count groups
  }
}

/// Tiles that the ring of copies is ahead of the one that is attended to: one more than that whose
/// scores are computed where keys are converted in between.
template <class T>
inline constexpr int kConvertedAhead = T::kConverts ? 2 : 0;

/// Walks over the keys of the piece, a turn for each tile and one or two before them; some warps
/// compute scores of the next tile, some attend to this one, or all do both. All convert the one
/// after the next.
template <class T, bool kScores, bool kAttends>
__device__ __forceinline__ void RunTurns(const MlaParams& params, const Block& block,
                                         const Warp<T>& w, int32_t page,
                                         typename T::SharedStorage& shared, State<T>& state) {
  constexpr int kTile = T::kKvTile;
  constexpr int kStages = T::kStages;
  constexpr int kCopyStages = T::kCopyStages;
  constexpr int kAhead = kConvertedAhead<T>;
  const PrefillParams& p = params.attention;
  const PrefillPiece& piece = block.piece;
  const int thread = static_cast<int>(threadIdx.x);
  Queries<T> q;
  int stage = T::kConverts ? 1 : kStages - 1;  // of the tile at `begin`
  int copy_stage = T::kConverts ? 0 : stage;   // of the one kAhead tiles further, in their ring
  int buffer = 1;
#pragma unroll 1
  for (int begin = piece.kv_begin - (T::kConverts ? 2 : 1) * kTile; begin < piece.kv_end;
       begin += kTile) {
    const int next = stage + 1 == kStages ? 0 : stage + 1;
    ptx::cp_async_wait_group<T::kConverts ? kCopyStages - 2 : kStages - 3>();
    // The next tile is there, and so are this one's scores; nobody reads the one before any more.
    SyncWarps<T>();
    if (begin >= piece.kv_begin && HasUnseen<T>(block, begin)) {
      ClearNonFinite<T>(shared.kv[stage]);
      SyncWarps<T>();
    }
    if (kScores && begin + kTile == piece.kv_begin) {
      TakeQueries<T>(w, shared.kv[stage], params.q_sign, q);
    }
    CopyTileIfAny<T>(params, block, shared, begin + (kAhead + kCopyStages - 1) * kTile,
                     copy_stage == 0 ? kCopyStages - 1 : copy_stage - 1);
    // Where the tile after that is, on pages that were looked up a whole tile ago.
    if (kScores && thread < kTile) {
      const int after = begin + (kAhead + kCopyStages) * kTile;
      shared.tokens[copy_stage][thread] = prefill_mma::RowsOf<T>(
          p, block, prefill_mma::TokenAt(block, after), [page](uint32_t) { return page; });
      page = FindPage(p, block, after + kTile);
    }
    if (T::kConverts && begin + 2 * kTile < piece.kv_end) {
      ConvertTile<T>(shared, copy_stage, next + 1 == kStages ? 0 : next + 1);
    }
    if (kScores && begin + kTile >= piece.kv_begin && begin + kTile < piece.kv_end) {
      ShareScores<T>(params, w, q, shared.kv[next], ScoresOf<T>(shared, buffer ^ 1));
    }
    if (kAttends && begin >= piece.kv_begin) {
      AttendAhead<T>(params, block, w, begin, stage, ScoresOf<T>(shared, buffer), shared, state);
    }
    stage = next;
    copy_stage = copy_stage + 1 == kCopyStages ? 0 : copy_stage + 1;
    buffer ^= 1;
  }
}

template <class T>
__device__ __forceinline__ void RunKeysAhead(const MlaParams& params, const Block& block,
                                             const Warp<T>& w, typename T::SharedStorage& shared,
                                             State<T>& state) {
  constexpr int kTile = T::kKvTile;
  constexpr int kPlaces = T::kCopyStages - (T::kConverts ? 0 : 1);  // tiles whose rows are known
  static_assert(kPlaces * kTile <= T::kThreads, "a thread looks up one token at first");
  const PrefillParams& p = params.attention;
  const PrefillPiece& piece = block.piece;
  const int thread = static_cast<int>(threadIdx.x);
  const TokenRows first = prefill_mma::FindToken<T>(p, block, piece.kv_begin);
  const int32_t page = FindPage(p, block, piece.kv_begin + kPlaces * kTile);
  LoadQuery<T>(params, block, shared.kv[T::kStages - 1]);
  if (thread < kPlaces * kTile) shared.tokens[thread / kTile][thread % kTile] = first;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < kPlaces - 1; ++i) {
    CopyTileIfAny<T>(params, block, shared, piece.kv_begin + i * kTile, i);
  }
  if constexpr (!T::kHasScoreWarps) {
    RunTurns<T, true, true>(params, block, w, page, shared, state);
  } else if (w.has_scores) {
    RunTurns<T, true, false>(params, block, w, page, shared, state);
  } else {
    RunTurns<T, false, true>(params, block, w, page, shared, state);
  }
}

}  // namespace flashinfer::kernels::mla_mma
