// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: the states of a block's warps become one, and those of a request's pieces
// become its output. The block that comes last merges them, in the order of the request's keys.
#pragma once

#include "kernels/attention/decode_simt_traits.cuh"
#include "kernels/ptx/atom.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::decode_simt {

/// Leaves each group's outputs and each warp's maxima and sums in shared memory.
template <class T>
__device__ __forceinline__ void ShareState(const Lane<T>& l, typename T::SharedStorage& shared,
                                           State<T>& state) {
#pragma unroll
  for (int mask = T::kRows; mask < 32; mask *= 2) {
    state.sum += __shfl_xor_sync(tile::kFullWarp, state.sum, mask);
  }
  __syncthreads();  // nobody reads the ring any more
  float* outputs =
      reinterpret_cast<float*>(shared.ring) +
      ((l.warp * T::kGroups + l.group) * T::kRows * T::kVoParts * T::kLanes + l.lane) * T::kPart;
#pragma unroll
  for (int row = 0; row < T::kRows; ++row) {
#pragma unroll
    for (int i = 0; i < T::kVoParts; ++i) {
      float part[T::kPart];
#pragma unroll
      for (int j = 0; j < T::kPart; ++j) part[j] = state.o[row][i * T::kPart + j];
      typename T::Part access;
      access.Narrow(part);
      access.Store(outputs + (row * T::kVoParts + i) * T::kLanes * T::kPart);
    }
  }
  if (l.group == 0) {
    shared.maxima[l.warp][l.row] = state.max;
    shared.sums[l.warp][l.row] = state.sum * (1.0f / T::kReplicas);
  }
  __syncthreads();
}

/// A few columns of a row: weighted sums of values, and the row's softmax state.
template <class T>
struct Result {
  float o[T::kPart];
  float max;
  float sum;
};

/// Results of a tile, a thread each: a row's parts lie beside each other.
template <class T>
inline constexpr int kRowResults = T::kVoParts* T::kLanes;
template <class T>
inline constexpr int kNumResults = T::kRows* kRowResults<T>;

template <class T>
__device__ __forceinline__ Result<T> MergeWarps(int index,
                                                const typename T::SharedStorage& shared) {
  const int row = index / kRowResults<T>;
  Result<T> r = {};
  r.max = shared.maxima[0][row];
#pragma unroll
  for (int w = 1; w < kDecodeWarps; ++w) r.max = fmaxf(r.max, shared.maxima[w][row]);
  const float* outputs = reinterpret_cast<const float*>(shared.ring) + index * T::kPart;
#pragma unroll
  for (int w = 0; w < kDecodeWarps; ++w) {
    const float weight = tile::Exp2Guarded(shared.maxima[w][row], r.max);
    r.sum += weight * shared.sums[w][row];
#pragma unroll
    for (int g = 0; g < T::kGroups; ++g) {
      typename T::Part access;
      float part[T::kPart];
      access.Load(outputs + (w * T::kGroups + g) * kNumResults<T> * T::kPart);
      access.Widen(part);
#pragma unroll
      for (int j = 0; j < T::kPart; ++j) r.o[j] += weight * part[j];
    }
  }
  return r;
}

/// Writes a result of a request, and its row's LSE.
template <class T>
__device__ __forceinline__ void WriteOutput(const DecodeParams& p, const Tile& tile,
                                            int64_t request, int index, Result<T> r) {
  const int row = index / kRowResults<T>;
  const int column = ColumnOf<T>(index % kRowResults<T> / T::kLanes, index % T::kLanes);
  const int64_t head = tile.first_row + row;
  float scale = p.v_scale;
  if (p.v_scales.data != nullptr) scale *= ValueOf(p.v_scales, tile.kv_head);
  if (p.sinks.data != nullptr && r.sum > 0) {  // a row that sees no key has no weights
    const float sink = ValueOf(p.sinks, head) * tile::kLog2E;
    const float with_sink = fmaxf(r.max, sink);
    const float factor = tile::Exp2Guarded(r.max, with_sink);
    scale *= factor;
    r.sum = r.sum * factor + tile::Exp2Guarded(sink, with_sink);
    r.max = with_sink;
  }
  RowPosition at{};
  float variant_scale = 1;
  if constexpr (T::V::IsOn()) {
    at = RowPositionOf<T>(p, tile, static_cast<int>(request), static_cast<int>(head));
    variant_scale = T::V::Finish(ValuesOf<typename T::V>(p), at, r.max, r.sum);
  } else {
    scale = r.sum > 0 ? scale * ptx::rcp_approx(r.sum) : 0.0f;
  }
  if (column < p.head_dim_vo) {
#pragma unroll
    for (int j = 0; j < T::kPart; ++j) {
      if constexpr (T::V::IsOn()) {
        r.o[j] = T::V::Output(ValuesOf<typename T::V>(p), r.o[j] * scale, at, column + j, r.max,
                              r.sum, variant_scale);
      } else {
        r.o[j] = r.sum > 0 ? r.o[j] * scale : 0.0f;
      }
    }
    tile::Elements<T::kS.dtype_out, T::kPart> access;
    access.Narrow(r.o);
    access.Store(tile::At<T::kS.dtype_out>(
        p.out, request * p.out_stride_request + head * p.out_stride_head + column));
  }
  if (column == 0 && p.lse != nullptr) {
    p.lse[request * p.lse_stride_request + head * p.lse_stride_head] =
        LseOf<typename T::V>(tile::LogSumExp2(r.max, r.sum));
  }
}

/// Where a tile's results of a partial result begin.
template <class T>
struct PartialAt {
  float* o;
  float* max_sum;
};

template <class T>
__device__ __forceinline__ PartialAt<T> PartialOf(const DecodeParams& p, const Tile& tile,
                                                  int partial, int index) {
  const int64_t at = int64_t{partial} * gridDim.y + tile.index;
  return {p.partial_o + (at * kNumResults<T> + index) * T::kPart,
          p.partial_ml + (at * T::kRows + index / kRowResults<T>)*2};
}

template <class T>
__device__ __forceinline__ void WritePartial(const DecodeParams& p, const Tile& tile, int partial,
                                             int index, const Result<T>& r) {
  const PartialAt<T> at = PartialOf<T>(p, tile, partial, index);
  typename T::Part access;
  access.Narrow(r.o);
  access.Store(at.o);
  if (index % kRowResults<T> != 0) return;
  at.max_sum[0] = r.max;
  at.max_sum[1] = r.sum;
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

/// Partial results of a request, in the order of its keys.
template <class T>
__device__ __forceinline__ Result<T> MergePartials(const DecodeParams& p, const Tile& tile,
                                                   const DecodePiece& piece, int index) {
  constexpr int kUnroll = 8;  // loads on their way: they take most of the time
  const PartialAt<T> first = PartialOf<T>(p, tile, piece.first_partial, index);
  const uint32_t o_step = gridDim.y * (kNumResults<T> * T::kPart);
  const uint32_t max_sum_step = gridDim.y * (T::kRows * 2);
  const uint32_t last = static_cast<uint32_t>(piece.num_partials) - 1;
  Result<T> r = {};
  r.max = tile::kNegativeInfinity;
#pragma unroll 1
  for (uint32_t begin = 0; begin <= last; begin += kUnroll) {
    typename T::Part x[kUnroll];
    ptx::Words<8> max_sum[kUnroll];
#pragma unroll
    for (uint32_t n = 0; n < kUnroll; ++n) {
      const uint64_t at = min(begin + n, last);
      max_sum[n] = ptx::ld_l2<8>(first.max_sum + at * max_sum_step);
      x[n].access[0] = ptx::ld_l2<T::kPart * 4>(first.o + at * o_step);
    }
    float max = r.max;
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) max = fmaxf(max, __uint_as_float(max_sum[n].w[0]));
    const float factor = tile::RescaleFactor(r.max, max);
    r.max = max;
    r.sum *= factor;
#pragma unroll
    for (int j = 0; j < T::kPart; ++j) r.o[j] *= factor;
#pragma unroll
    for (uint32_t n = 0; n < kUnroll; ++n) {
      float weight = tile::Exp2Guarded(__uint_as_float(max_sum[n].w[0]), max);
      if (begin + n > last) weight = 0;
      r.sum += weight * __uint_as_float(max_sum[n].w[1]);
      float part[T::kPart];
      x[n].Widen(part);
#pragma unroll
      for (int j = 0; j < T::kPart; ++j) r.o[j] += weight * part[j];
    }
  }
  return r;
}

/// The block's results of a piece, and the request's where it is the last.
template <class T>
__device__ __forceinline__ void Finish(const DecodeParams& p, const Tile& tile,
                                       const DecodePiece& piece,
                                       typename T::SharedStorage& shared) {
  // Twice at most: the warps' results, then the pieces'. One loop, as its body is long.
#pragma unroll 1
  for (bool is_merge = false;; is_merge = true) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < tile.num_rows * kRowResults<T>;
         i += kDecodeThreads) {
      const Result<T> r = is_merge ? MergePartials<T>(p, tile, piece, i) : MergeWarps<T>(i, shared);
      if (piece.partial < 0 || is_merge) {
        WriteOutput<T>(p, tile, piece.request, i, r);
      } else {
        WritePartial<T>(p, tile, piece.partial, i, r);
      }
    }
    if (piece.partial < 0 || is_merge || !IsLast<T>(p, tile, piece, shared)) return;
  }
}

}  // namespace flashinfer::kernels::decode_simt
