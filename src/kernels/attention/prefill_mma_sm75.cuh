// SPDX-License-Identifier: Apache-2.0
// Attention of many query tokens a request on tensor cores, by mma.sync (FlashAttention-2, Dao,
// 2023, over pages).
//
// A block holds the rows of its piece, query tokens times heads of a KV head's group, and walks
// over the keys tile by tile: two stages of shared memory, one barrier a tile, the next tile on its
// way while this one is multiplied. A warp has rows of its own, so scores, softmax and outputs stay
// in its registers. Pieces of split rows leave partial results, which the last block to come merges
// in the order of keys.
#pragma once

#include "kernels/attention/prefill_load.cuh"
#include "kernels/attention/prefill_score.cuh"
#include "kernels/attention/prefill_write.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ldmatrix.cuh"

namespace flashinfer::kernels::prefill_mma {

template <class T>
using Scores = float[T::kRowTiles][T::kKeyTiles][4];

/// scores = Q K^T of a warp's rows and a tile of keys; between(step) is called for each step.
template <class T, class Between>
__device__ __forceinline__ void MultiplyKeys(const Warp<T>& w, const uint16_t* q, const uint16_t* k,
                                             Scores<T>& scores, const Between& between) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
    }
  }
  const uint32_t q_row =
      ptx::shared_address(q) + 2 * ((w.first_row + w.lane % 16) * T::kQkStride + w.lane / 16 * 8);
  const uint32_t k_row = ptx::shared_address(k) +
                         2 * ((w.lane / 16 * 8 + w.lane % 8) * T::kQkStride + w.lane / 8 % 2 * 8);
#pragma unroll
  for (int step = 0; step < T::kQkSteps; ++step) {
    uint32_t a[T::kQueryParts][T::kRowTiles][4];
#pragma unroll
    for (int part = 0; part < T::kQueryParts; ++part) {
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
        ptx::ldmatrix(a[part][m],
                      q_row + 2 * ((part * T::kRows + m * 16) * T::kQkStride + step * 16));
      }
    }
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; n += 2) {
      uint32_t b[4];
      ptx::ldmatrix(b, k_row + 2 * (n * 8 * T::kQkStride + step * 16));
      if (n == (T::kKeyTiles > 4 ? 2 : 0)) between(step);
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
        for (int part = 0; part < T::kQueryParts; ++part) {
          Multiply<T>(scores[m][n], a[part][m], b[0], b[1]);
          Multiply<T>(scores[m][n + 1], a[part][m], b[2], b[3]);
        }
      }
    }
  }
}

/// o += P V, where P are the weights of the scores.
template <class T>
__device__ __forceinline__ void MultiplyValues(const Warp<T>& w, const uint16_t* v,
                                               const Scores<T>& scores, State<T>& state) {
  const uint32_t v_row =
      ptx::shared_address(v) + 2 * (w.lane % 16 * T::kVoStride + w.lane / 16 * 8);
#pragma unroll
  for (int step = 0; step < T::kKvTile / 16; ++step) {
    uint32_t a[T::kWeightParts][T::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < T::kRowTiles; ++m) {
      PackWeights<T>(scores[m][2 * step], state, m, 0, a);
      PackWeights<T>(scores[m][2 * step + 1], state, m, 2, a);
    }
#pragma unroll
    for (int n = 0; n < T::kValueTiles; n += 2) {
      uint32_t b[4];
      ptx::ldmatrix<4, ptx::Transposed::kYes>(b, v_row + 2 * (step * 16 * T::kVoStride + n * 8));
#pragma unroll
      for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
        for (int part = 0; part < T::kWeightParts; ++part) {
          Multiply<T>(state.o[m][n], a[part][m], b[0], b[1]);
          Multiply<T>(state.o[m][n + 1], a[part][m], b[2], b[3]);
        }
      }
    }
  }
}

/// Gets a tile of keys and values, whose tokens are known.
template <class T>
class TileCopier {
 public:
  __device__ __forceinline__ TileCopier(const PrefillParams& p, const Block& block,
                                        typename T::SharedStorage& shared)
      : shared_(shared),
        num_qk_columns_(p.head_dim_qk),
        num_vo_columns_(p.head_dim_vo - block.vo_begin) {}

  /// Starts one of kParts parts.
  template <int kParts>
  __device__ __forceinline__ void CopyPart(const TokenRows* tokens, int stage, int part) const {
    CopyTileRows<T, T::kQkColumns, &TokenRows::k, kParts>(tokens, num_qk_columns_,
                                                          shared_.in.k[stage], part);
    CopyTileRows<T, T::kVoColumns, &TokenRows::v, kParts>(tokens, num_vo_columns_,
                                                          shared_.in.v[stage], part);
  }

  __device__ __forceinline__ void Convert(const PrefillParams& p, const Block& block,
                                          const TokenRows* tokens, int begin, int stage) const {
    ConvertKeys<T>(p, block, tokens, begin, shared_.in.k[stage]);
    CopyTileRows<T, T::kVoColumns, &TokenRows::v>(tokens, num_vo_columns_, shared_.in.v[stage]);
  }

 private:
  typename T::SharedStorage& shared_;
  int num_qk_columns_;
  int num_vo_columns_;
};

template <class T>
__device__ __forceinline__ void RunKeys(const PrefillParams& p, const Block& block,
                                        const Warp<T>& w, typename T::SharedStorage& shared,
                                        State<T>& state) {
  const PrefillPiece piece = block.piece;
  const TileCopier<T> copier(p, block, shared);
  int32_t page = FindPageOfToken(p, block, piece.kv_begin);
  if constexpr (T::kCopiesQuery) {
    CopyQuery<T>(p, block, shared);
  } else {
    LoadQuery<T>(p, block, shared);
  }
  uint32_t ahead = 0;  // keys from the piece's begin to the tile that is copied
  // The first turn only copies: one loop, so that copying is compiled once.
#pragma unroll 1
  for (int begin = piece.kv_begin - T::kKvTile; begin < piece.kv_end; begin += T::kKvTile) {
    // Each thread looks up a token, for several tiles at once: at each tile, all warps would wait
    // for the one that does.
    if (ahead % T::kThreads == 0) {
      const int from = begin + T::kKvTile;
      shared.tokens[ahead % (2 * T::kThreads) + threadIdx.x] = FindToken<T>(p, block, from, page);
      page = FindPageOfToken(p, block, from + T::kThreads);
    }
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // this tile is there, and nobody reads the other stage any more
    const int stage = ahead / T::kKvTile % 2;
    const TokenRows* tokens = shared.tokens + ahead % (2 * T::kThreads);
    // Of the tile behind the last one, too: its tokens are the last token.
    const auto copy_part = [&](int part) {
      if constexpr (T::kSpreadsCopies) {
        copier.template CopyPart<T::kQkSteps>(tokens, stage, part);
      }
    };
    if (!T::kSpreadsCopies && begin + T::kKvTile < piece.kv_end) {
      copier.Convert(p, block, tokens, begin + T::kKvTile, stage);
    }
    if (begin >= piece.kv_begin && w.first_row < block.num_rows) {
      if (begin == piece.kv_begin) InitRows<T>(p, w, shared, state);
      Scores<T> scores;
      MultiplyKeys<T>(w, shared.in.q, shared.in.k[stage ^ 1], scores, copy_part);
      ptx::cp_async_commit_group();
      TransformScores<T>(p, block, w, begin, state, scores);
      UpdateMaxima<T>(state, scores);
      MultiplyValues<T>(w, shared.in.v[stage ^ 1], scores, state);
    } else {
#pragma unroll
      for (int part = 0; part < T::kQkSteps; ++part) copy_part(part);
      ptx::cp_async_commit_group();
    }
    ahead += T::kKvTile;
  }
  ptx::cp_async_wait_group<0>();
}

template <PrefillSpec kSpec, class V = NoVariant>
__device__ __forceinline__ void Run(const typename V::template Params<PrefillParams>& p) {
  using T = typename TraitsWith<kSpec, V>::Type;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) shared.block = MakeBlock<T>(p);
  __syncthreads();
  const Block& block = shared.block;  // there, it takes no registers
  const Warp<T> w = MakeWarp<T>();
  State<T> state;
  ClearState<T>(state);
  if (block.piece.kv_begin < block.piece.kv_end) RunKeys<T>(p, block, w, shared, state);
  SumRows<T>(state);
  WriteRows<T>(p, block, w, shared, state);
}

}  // namespace flashinfer::kernels::prefill_mma
