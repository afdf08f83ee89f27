// SPDX-License-Identifier: Apache-2.0
// Attention of one query token per request over a paged cache, on CUDA cores.
//
// A block walks over the pieces of its slot (keys of a request) for a tile of query heads that
// share a KV head. Each warp takes its own tokens, each group of token_lanes lanes a token at a
// time, each lane the same columns of all of them; outputs live in registers. Pieces of a split
// request leave partial results, which the last block to come merges. Bound by bytes for one head
// per KV head, by multiply-adds from four on.
#pragma once

#include "kernels/attention/decode_simt_merge.cuh"
#include "kernels/attention/decode_simt_tile.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace flashinfer::kernels::decode_simt {

template <class T>
__device__ __forceinline__ void RunPiece(const DecodeParams& p, const Tile& tile,
                                         const DecodePiece& piece, const Lane<T>& l,
                                         typename T::SharedStorage& shared) {
  State<T> state = {};
  state.max = Unseen<typename T::V>();
  if (piece.kv_begin < piece.kv_end) RunKeys<T>(p, tile, piece, l, shared, state);
  ShareState<T>(l, shared, state);
  Finish<T>(p, tile, piece, shared);
}

template <DecodeSpec kSpec, class V = NoVariant>
__device__ __forceinline__ void Run(const typename V::template Params<DecodeParams>& p) {
  using T = typename TraitsWith<kSpec, V>::Type;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  // A copy wrote the plan, no kernel: it can be read while the kernel before this one runs.
  const DecodeSlot slot = p.slots[blockIdx.x];
  Tile tile;
  tile.index = static_cast<int>(blockIdx.y);
  tile.kv_head = tile.index / p.row_tiles;
  const int row = (tile.index - tile.kv_head * p.row_tiles) * T::kRows;
  tile.first_row = tile.kv_head * p.group_size + row;
  tile.num_rows = min(T::kRows, p.group_size - row);
  const Lane<T> l = MakeLane<T>();
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (slot.num_pieces == 0) return;
  DecodePiece piece = slot.first;
#pragma unroll 1
  for (int i = 1;; ++i) {
    RunPiece<T>(p, tile, piece, l, shared);
    if (i >= slot.num_pieces) break;
    piece = p.pieces[slot.first_index + i];
    __syncthreads();  // before the ring is filled again
  }
}

}  // namespace flashinfer::kernels::decode_simt
