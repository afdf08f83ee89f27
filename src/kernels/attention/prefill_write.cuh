// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: outputs, partial results of split rows, and their merge.
#pragma once

#include "kernels/attention/prefill_traits.cuh"
#include "kernels/ptx/atom.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::prefill_mma {

/// kCount elements to global memory, by accesses of at most kAccessBytes.
template <DType kDType, int kCount, int kAccessBytes>
__device__ __forceinline__ void StoreFloats(char* to, const float (&x)[kCount]) {
  constexpr int kSize = tile::SizeBytes(kDType);
  constexpr int kPart = kAccessBytes / kSize < 1        ? 1
                        : kAccessBytes / kSize < kCount ? kAccessBytes / kSize
                                                        : kCount;
#pragma unroll
  for (int i = 0; i < kCount; i += kPart) {
    tile::Elements<kDType, kPart> part;
    float values[kPart];
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[j] = x[i + j];
    part.Narrow(values);
    part.Store(to + i * kSize);
  }
}

/// What a row's weighted sum of values is multiplied with, and its LSE.
struct RowResult {
  float scale;
  float lse;
};

/// The same with what a variant makes its outputs from.
struct VariantRowResult : RowResult {
  float max;
  float sum;
  float variant_scale;
};

/// Adds a sink to a row's sum, which is above 0.
__device__ __forceinline__ void AddSink(const PrefillParams& p, int head, float& scale, float& max,
                                        float& sum) {
  if (p.sinks.data == nullptr) return;
  const float sink = ValueOf(p.sinks, head) * tile::kLog2E;
  const float with_sink = fmaxf(max, sink);
  const float factor = ptx::ex2_approx(max - with_sink);
  scale *= factor;
  sum = sum * factor + ptx::ex2_approx(sink - with_sink);
  max = with_sink;
}

template <class T>
__device__ __forceinline__ auto Finish(const PrefillParams& p, const Block& block, Row row,
                                       float max, float sum) {
  float scale = p.v_scale;
  if (p.v_scales.data != nullptr) scale *= ValueOf(p.v_scales, block.kv_head);
  if constexpr (T::V::IsOn()) {
    if (sum > 0) AddSink(p, row.head, scale, max, sum);
    const float variant_scale =
        T::V::Finish(ValuesOf<typename T::V>(p), RowPositionOf(block, row), max, sum);
    return VariantRowResult{
        {scale, LseOf<typename T::V>(tile::LogSumExp2(max, sum))}, max, sum, variant_scale};
  } else {
    if (!(sum > 0)) return RowResult{0.0f, sum != sum ? sum : tile::kNegativeInfinity};
    AddSink(p, row.head, scale, max, sum);
    return RowResult{__fdividef(scale, sum), tile::LogSumExp2(max, sum)};
  }
}

/// The output of a row in a column of the block, from its weighted sum of values.
template <class T, class Result>
__device__ __forceinline__ float OutputOf(const PrefillParams& p, const Block& block, Row row,
                                          int column, const Result& r, float o) {
  if constexpr (T::V::IsOn()) {
    return T::V::Output(ValuesOf<typename T::V>(p), o * r.scale, RowPositionOf(block, row),
                        block.vo_begin + column, r.max, r.sum, r.variant_scale);
  } else {
    return o * r.scale;
  }
}

template <class T>
__device__ __forceinline__ void WriteLse(const PrefillParams& p, const Block& block, Row row,
                                         float lse) {
  if (p.lse == nullptr || block.vo_begin != 0) return;
  p.lse[(block.request.q_begin + int64_t{row.token}) * p.lse_stride_token +
        row.head * p.lse_stride_head] = lse;
}

__device__ __forceinline__ int64_t OutputAt(const PrefillParams& p, const Block& block, Row row) {
  return (block.request.q_begin + int64_t{row.token}) * p.out_stride_token +
         row.head * p.out_stride_head + block.vo_begin;
}

/// The block's first row in a partial result.
template <class T>
__device__ __forceinline__ int64_t PartialRow(const Block& block, int partial) {
  return (int64_t{partial} * gridDim.y + block.tile) * T::kRows;
}

/// Whether this block is the last of its rows to leave a partial result.
template <class T>
__device__ __forceinline__ bool IsLast(const PrefillParams& p, const Block& block,
                                       typename T::SharedStorage& shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t limit = static_cast<uint32_t>(block.piece.num_partials) - 1;
    uint32_t* counter = p.counters + int64_t{block.piece.merge} * gridDim.y + block.tile;
    shared.is_last = ptx::atom_inc_acq_rel(counter, limit) == limit;
  }
  __syncthreads();
  __threadfence();
  return shared.is_last != 0;
}

/// The rows of a block that a warp writes.
struct WarpRows {
  int begin;
  int count;
};

template <class T>
__device__ __forceinline__ WarpRows RowsOfWarp(const Block& block) {
  constexpr int kRows = T::kRows / (T::kThreads / 32);
  static_assert(kRows <= 32, "a lane a row");
  const int begin = static_cast<int>(threadIdx.x) / 32 * kRows;
  return {begin, max(0, min(kRows, block.num_rows - begin))};
}

/// Partial results of a warp's rows, together in the order of keys, as StageRows() puts rows.
template <class T>
__device__ __forceinline__ void StageMerged(const PrefillParams& p, const Block& block,
                                            float* staged) {
  constexpr int kStride = PrefillOutputStride(T::kVoColumns);
  constexpr int kRowsAtOnce = 4;  // of which loads wait together
  const WarpRows rows = RowsOfWarp<T>(block);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t step = int64_t{gridDim.y} * T::kRows;
  const int64_t first = PartialRow<T>(block, block.piece.first_partial) + rows.begin;
  const float2* ml = reinterpret_cast<const float2*>(p.partial_ml) + first;
  const int own = min(lane, rows.count - 1);
  float max = tile::kNegativeInfinity;
  float sum = 0;
  for (int i = 0; i < block.piece.num_partials; ++i) {
    const float2 x = __ldcg(ml + i * step + own);
    const float larger = fmaxf(max, x.x);
    sum = sum * tile::RescaleFactor(max, larger) + x.y * tile::Exp2Guarded(x.x, larger);
    max = larger;
  }
  float* to = staged + rows.begin * kStride;
  if (lane < rows.count) {
    *reinterpret_cast<float2*>(to + lane * kStride + T::kVoColumns) = make_float2(max, sum);
  }
  __syncwarp();
#pragma unroll 1
  for (int begin = 0; begin < rows.count; begin += kRowsAtOnce) {
#pragma unroll 1
    for (int column = lane * 4; column < T::kVoColumns; column += 128) {
      float4 o[kRowsAtOnce] = {};
#pragma unroll 1
      for (int i = 0; i < block.piece.num_partials; ++i) {
        const float* from = p.partial_o + (first + i * step) * T::kVoColumns + column;
#pragma unroll
        for (int r = 0; r < kRowsAtOnce; ++r) {
          const int row = min(begin + r, rows.count - 1);
          const float4 x = __ldcg(reinterpret_cast<const float4*>(from + row * T::kVoColumns));
          const float weight =
              tile::Exp2Guarded(__ldcg(ml + i * step + row).x, to[row * kStride + T::kVoColumns]);
          o[r].x += weight * x.x;
          o[r].y += weight * x.y;
          o[r].z += weight * x.z;
          o[r].w += weight * x.w;
        }
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (begin + r >= rows.count) break;
        *reinterpret_cast<float4*>(to + (begin + r) * kStride + column) = o[r];
      }
    }
  }
}

/// What another lane has of its row.
__device__ __forceinline__ RowResult ResultOfLane(const RowResult& r, int lane) {
  return {__shfl_sync(tile::kFullWarp, r.scale, lane), 0};
}
__device__ __forceinline__ VariantRowResult ResultOfLane(const VariantRowResult& r, int lane) {
  return {{__shfl_sync(tile::kFullWarp, r.scale, lane), 0},
          __shfl_sync(tile::kFullWarp, r.max, lane),
          __shfl_sync(tile::kFullWarp, r.sum, lane),
          __shfl_sync(tile::kFullWarp, r.variant_scale, lane)};
}

/// Outputs of a warp's rows, or their part of a partial result, from shared memory: a lane a row
/// for what there is once a row, then a row at a time.
template <class T>
__device__ __forceinline__ void WriteStaged(const PrefillParams& p, const Block& block,
                                            bool is_partial, const float* staged) {
  constexpr int kStride = PrefillOutputStride(T::kVoColumns);
  const WarpRows rows = RowsOfWarp<T>(block);
  if (rows.count == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = rows.begin + min(lane, rows.count - 1);
  const int64_t partial_row = PartialRow<T>(block, block.piece.partial);
  const float2 ml = *reinterpret_cast<const float2*>(staged + own * kStride + T::kVoColumns);
  const Row own_row = RowAt(p, block, own);
  const auto own_result = Finish<T>(p, block, own_row, ml.x, ml.y);
  if (is_partial) {
    reinterpret_cast<float2*>(p.partial_ml)[partial_row + own] = ml;
  } else {
    WriteLse<T>(p, block, own_row, own_result.lse);
  }
#pragma unroll 1
  for (int i = 0; i < rows.count; ++i) {
    const int index = rows.begin + i;
    const auto result = ResultOfLane(own_result, i);
    const Row row = RowAt(p, block, index);
    char* out = tile::At<T::kS.dtype_out>(p.out, OutputAt(p, block, row));
    float* partial = p.partial_o + (partial_row + index) * T::kVoColumns;
#pragma unroll
    for (int column = lane * 4; column < T::kVoColumns; column += 128) {
      const float4 x = *reinterpret_cast<const float4*>(staged + index * kStride + column);
      if (is_partial) {
        *reinterpret_cast<float4*>(partial + column) = x;
      } else if (block.vo_begin + column < p.head_dim_vo) {
        const float o[4] = {OutputOf<T>(p, block, row, column, result, x.x),
                            OutputOf<T>(p, block, row, column + 1, result, x.y),
                            OutputOf<T>(p, block, row, column + 2, result, x.z),
                            OutputOf<T>(p, block, row, column + 3, result, x.w)};
        StoreFloats<T::kS.dtype_out, 4, T::kS.out_access_bytes>(
            tile::At<T::kS.dtype_out>(out, column), o);
      }
    }
  }
}

/// Rows of a block's warps to shared memory: fragments of registers, which code for one row after
/// the other cannot be made of.
template <class T>
__device__ __forceinline__ void StageRows(const Warp<T>& w, const State<T>& state, float* staged) {
  constexpr int kStride = PrefillOutputStride(T::kVoColumns);
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* to = staged + w.RowOf(m, half) * kStride;
#pragma unroll
      for (int n = 0; n < T::kValueTiles; ++n) {
        *reinterpret_cast<float2*>(to + w.ColumnOf(n)) =
            make_float2(state.o[m][n][2 * half], state.o[m][n][2 * half + 1]);
      }
      if (w.lane % 4 != 0) continue;
      *reinterpret_cast<float2*>(to + T::kVoColumns) =
          make_float2(state.max[m][half], state.sum[m][half]);
    }
  }
}

/// Outputs of the rows, or a partial result and, by the last block to leave one, their merge.
template <class T>
__device__ __forceinline__ void WriteRows(const PrefillParams& p, const Block& block,
                                          const Warp<T>& w, typename T::SharedStorage& shared,
                                          const State<T>& state) {
  __syncthreads();  // nobody reads queries, keys and values any more
  StageRows<T>(w, state, shared.out);
  // One loop, so that this is compiled once.
#pragma unroll 1
  for (bool is_partial = block.piece.partial >= 0;; is_partial = false) {
    __syncwarp();
    WriteStaged<T>(p, block, is_partial, shared.out);
    if (!is_partial || !IsLast<T>(p, block, shared)) return;
    StageMerged<T>(p, block, shared.out);
  }
}

}  // namespace flashinfer::kernels::prefill_mma
