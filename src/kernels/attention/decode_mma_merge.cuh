// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores: the states of a block's warps become one, and those of a request's pieces
// become its output. The block that comes last merges them, in the order of the request's keys.
#pragma once

#include "kernels/attention/decode_mma_traits.cuh"
#include "kernels/ptx/atom.cuh"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::decode_mma {

/// Four columns of a row: weighted sums of values, and the row's softmax state. A thread has one at
/// a time; those of a row lie beside each other.
struct Part {
  float o[4];
  float max;
  float sum;
};

template <class T>
inline constexpr int kRowParts = T::kS.head_dim_vo / 4;

/// Leaves a warp's maxima and sums for the others.
template <class T>
__device__ __forceinline__ void ShareSums(const Lane& l, typename T::SharedStorage& shared,
                                          State<T>& state) {
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int mask = 4; mask < 32; mask *= 2) {
        state.sum[r][i] += __shfl_xor_sync(tile::kFullWarp, state.sum[r][i], mask);
      }
      if (l.group != 0) continue;
      shared.sums[r * 8 + l.pair * 2 + i][l.warp] = make_float2(state.max[r][i], state.sum[r][i]);
    }
  }
}

/// Leaves a warp's outputs of a row block [8, kOutputPitch].
template <class T>
__device__ __forceinline__ void ShareOutputs(const Lane& l, const float (&o)[T::kVoTiles][4],
                                             float* to) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = l.pair * 2 + i % 2;
#pragma unroll
    for (int tile = 0; tile < T::kVoTiles; ++tile) {
      to[row * T::kOutputPitch + ColumnOf<T>(l, tile, i)] = o[tile][i];
    }
  }
}

/// Of row `row` of row block r.
template <class T>
__device__ __forceinline__ Part MergeWarps(const typename T::SharedStorage& shared, int stage,
                                           int r, int row, int column) {
  float2 sums[T::kWarps];
#pragma unroll
  for (int w = 0; w < T::kWarps; ++w) sums[w] = shared.sums[r * 8 + row][w];
  Part part = {};
  part.max = sums[0].x;
#pragma unroll
  for (int w = 1; w < T::kWarps; ++w) part.max = fmaxf(part.max, sums[w].x);
#pragma unroll
  for (int w = 0; w < T::kWarps; ++w) {
    const float factor = tile::Exp2Guarded(sums[w].x, part.max);
    const float4 x = *reinterpret_cast<const float4*>(
        reinterpret_cast<const float*>(shared.ring[stage][w]) + row * T::kOutputPitch + column);
    part.sum += factor * sums[w].y;
    part.o[0] += factor * x.x;
    part.o[1] += factor * x.y;
    part.o[2] += factor * x.z;
    part.o[3] += factor * x.w;
  }
  return part;
}

/// Writes a part of a request's output, and with the first one its row's LSE.
template <class T>
__device__ __forceinline__ void WriteOutput(const DecodeParams& p, const Tile& tile, int request,
                                            int row, int column, Part part) {
  constexpr DType kOut = T::kS.dtype_out;
  const int64_t head = tile.first_row + row;
  float scale = p.v_scale;
  if (p.v_scales.data != nullptr) scale *= ValueOf(p.v_scales, tile.kv_head);
  if (p.sinks.data != nullptr && part.sum > 0) {  // a row that sees no key has no weights
    const float sink = ValueOf(p.sinks, head) * tile::kLog2E;
    const float with_sink = fmaxf(part.max, sink);
    const float factor = tile::Exp2Guarded(part.max, with_sink);
    scale *= factor;
    part.sum = part.sum * factor + tile::Exp2Guarded(sink, with_sink);
    part.max = with_sink;
  }
  if constexpr (T::V::IsOn()) {
    const RowPosition at = RowPositionOf<T>(p, tile, request, static_cast<int>(head));
    const auto& values = ValuesOf<typename T::V>(p);
    const float variant_scale = T::V::Finish(values, at, part.max, part.sum);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      part.o[i] = T::V::Output(values, part.o[i] * scale, at, column + i, part.max, part.sum,
                               variant_scale);
    }
  } else {
    scale = part.sum > 0 ? scale / part.sum : 0.0f;
#pragma unroll
    for (float& x : part.o) x = part.sum > 0 ? x * scale : 0.0f;
  }
  const int64_t at = request * p.out_stride_request + head * p.out_stride_head + column;
  if (p.is_packed != 0) {
    tile::Elements<kOut, 4> access;
    access.Narrow(part.o);
    access.Store(tile::At<kOut>(p.out, at));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile::StoreElement<kOut>(p.out, at + i, part.o[i]);
  }
  if (column == 0 && p.lse != nullptr) {
    p.lse[request * p.lse_stride_request + head * p.lse_stride_head] =
        LseOf<typename T::V>(tile::LogSumExp2(part.max, part.sum));
  }
}

/// A row of a tile in a partial result.
template <class T>
__device__ __forceinline__ int64_t PartialRow(const Tile& tile, int partial, int row) {
  return (int64_t{partial} * gridDim.y + tile.index) * T::kRows + row;
}

template <class T>
__device__ __forceinline__ void WritePartial(const DecodeParams& p, const Tile& tile, int partial,
                                             int row, int column, const Part& part) {
  const int64_t at = PartialRow<T>(tile, partial, row);
  *reinterpret_cast<float4*>(p.partial_o + at * T::kS.head_dim_vo + column) =
      make_float4(part.o[0], part.o[1], part.o[2], part.o[3]);
  if (column != 0) return;
  p.partial_ml[at * 2] = part.max;
  p.partial_ml[at * 2 + 1] = part.sum;
}

/// Whether this block is the last of its request and tile to leave a partial result: it then sees
/// those of all.
template <class T>
__device__ __forceinline__ bool IsLast(const DecodeParams& p, const Tile& tile,
                                       const DecodePiece& piece,
                                       typename T::SharedStorage& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t limit = static_cast<uint32_t>(piece.num_partials) - 1;
    uint32_t* counter = p.counters + int64_t{piece.merge} * gridDim.y + tile.index;
    shared.is_last = ptx::atom_inc_acq_rel(counter, limit) == limit;
  }
  __syncthreads();
  return shared.is_last != 0;
}

/// A part of all partial results of a request, in the order of its keys.
template <class T>
__device__ __forceinline__ Part MergePartials(const DecodeParams& p, const Tile& tile,
                                              const DecodePiece& piece, int row, int column) {
  // Loads on their way, which take most of the time. H200, 2026-12-01: 16 take as long where there
  // are so many, and 0.4 µs more where there are 8.
  constexpr int kUnroll = 8;
  const int64_t first = PartialRow<T>(tile, piece.first_partial, row);
  const auto* o = reinterpret_cast<const float4*>(p.partial_o + first * T::kS.head_dim_vo + column);
  const auto* sums = reinterpret_cast<const float2*>(p.partial_ml) + first;
  const int sum_step = static_cast<int>(gridDim.y) * T::kRows;
  const int o_step = sum_step * (T::kS.head_dim_vo / 4);
  Part part = {};
  part.max = tile::kNegativeInfinity;
#pragma unroll 1
  for (int rest = piece.num_partials; rest > 0; rest -= kUnroll) {
    float4 x[kUnroll];
    float2 ml[kUnroll];
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) {
      x[n] = make_float4(0, 0, 0, 0);
      ml[n] = make_float2(tile::kNegativeInfinity, 0);
      if (n >= rest) continue;
      ml[n] = __ldcg(sums + n * sum_step);
      x[n] = __ldcg(o + n * o_step);
    }
    float max = part.max;
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) max = fmaxf(max, ml[n].x);
    const float factor = tile::RescaleFactor(part.max, max);
    part.max = max;
    part.sum *= factor;
#pragma unroll
    for (float& y : part.o) y *= factor;
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) {
      const float weight = tile::Exp2Guarded(ml[n].x, max);
      part.sum += weight * ml[n].y;
      part.o[0] += weight * x[n].x;
      part.o[1] += weight * x[n].y;
      part.o[2] += weight * x[n].z;
      part.o[3] += weight * x[n].w;
    }
    o += kUnroll * o_step;
    sums += kUnroll * sum_step;
  }
  return part;
}

/// The block's result of a piece, and the request's where it is the last. Each warp's part of
/// `stage` of the ring is free; nobody copies to it before all are done.
template <class T>
__device__ __forceinline__ void Finish(const DecodeParams& p, const Tile& tile,
                                       const DecodePiece& piece, const Lane& l, int stage,
                                       typename T::SharedStorage& shared, State<T>& state) {
  constexpr int kBlockParts = 8 * kRowParts<T>;
  ShareSums<T>(l, shared, state);
#pragma unroll 1
  for (int r = 0; r < T::kRowBlocks; ++r) {
    if (r > 0) __syncthreads();
#pragma unroll
    for (int i = 0; i < T::kRowBlocks; ++i) {  // state stays in registers
      if (i != r) continue;
      ShareOutputs<T>(l, state.o[i], reinterpret_cast<float*>(shared.ring[stage][l.warp]));
    }
    __syncthreads();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kBlockParts; i += T::kThreads) {
      const int row = i / kRowParts<T>;
      const int column = i % kRowParts<T> * 4;
      if (r * 8 + row >= tile.num_rows) break;
      const Part part = MergeWarps<T>(shared, stage, r, row, column);
      if (piece.partial < 0) {
        WriteOutput<T>(p, tile, piece.request, r * 8 + row, column, part);
      } else {
        WritePartial<T>(p, tile, piece.partial, r * 8 + row, column, part);
      }
    }
  }
  if (piece.partial < 0 || !IsLast<T>(p, tile, piece, shared)) return;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * kRowParts<T>; i += T::kThreads) {
    const int row = i / kRowParts<T>;
    const int column = i % kRowParts<T> * 4;
    const Part part = MergePartials<T>(p, tile, piece, row, column);
    WriteOutput<T>(p, tile, piece.request, row, column, part);
  }
}

}  // namespace flashinfer::kernels::decode_mma
