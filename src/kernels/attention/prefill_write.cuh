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

template <class T>
__device__ __forceinline__ void WriteOutputs(const PrefillParams& p, const Block& block,
                                             const Warp<T>& w, const State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = w.RowOf(m, half);
      if (index >= block.num_rows) continue;
      const Row row = RowAt(p, block, index);
      const auto result = Finish<T>(p, block, row, state.max[m][half], state.sum[m][half]);
      if (w.lane % 4 == 0) WriteLse<T>(p, block, row, result.lse);
      char* out = tile::At<T::kS.dtype_out>(p.out, OutputAt(p, block, row) + w.ColumnOf(0));
      const int num_columns = p.head_dim_vo - block.vo_begin;
#pragma unroll
      for (int n = 0; n < T::kValueTiles; ++n) {
        if (n * 8 >= num_columns) break;
        const int column = w.ColumnOf(n);
        const float x[2] = {
            OutputOf<T>(p, block, row, column, result, state.o[m][n][2 * half]),
            OutputOf<T>(p, block, row, column + 1, result, state.o[m][n][2 * half + 1])};
        StoreFloats<T::kS.dtype_out, 2, T::kS.out_access_bytes>(
            out + n * 8 * tile::SizeBytes(T::kS.dtype_out), x);
      }
    }
  }
}

/// The block's first row in a partial result.
template <class T>
__device__ __forceinline__ int64_t PartialRow(const Block& block, int partial) {
  return (int64_t{partial} * gridDim.y + block.tile) * T::kRows;
}

template <class T>
__device__ __forceinline__ void WritePartial(const PrefillParams& p, const Block& block,
                                             const Warp<T>& w, const State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = w.RowOf(m, half);
      if (index >= block.num_rows) continue;
      const int64_t row = PartialRow<T>(block, block.piece.partial) + index;
      if (w.lane % 4 == 0) {
        reinterpret_cast<float2*>(p.partial_ml)[row] =
            make_float2(state.max[m][half], state.sum[m][half]);
      }
      float* to = p.partial_o + row * T::kVoColumns + w.ColumnOf(0);
#pragma unroll
      for (int n = 0; n < T::kValueTiles; ++n) {
        *reinterpret_cast<float2*>(to + n * 8) =
            make_float2(state.o[m][n][2 * half], state.o[m][n][2 * half + 1]);
      }
    }
  }
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

/// Partial results of the block's rows in the order of keys: a warp a row.
template <class T>
__device__ __forceinline__ void MergePartials(const PrefillParams& p, const Block& block) {
  constexpr int kVectors = (T::kVoColumns / 4 + 31) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t step = int64_t{gridDim.y} * T::kRows;
  for (int index = static_cast<int>(threadIdx.x) / 32; index < block.num_rows;
       index += T::kThreads / 32) {
    const int64_t first = PartialRow<T>(block, block.piece.first_partial) + index;
    const float2* ml = reinterpret_cast<const float2*>(p.partial_ml);
    float max = tile::kNegativeInfinity;
    float sum = 0;
    for (int i = lane; i < block.piece.num_partials; i += 32) {
      const float2 x = __ldcg(ml + first + i * step);
      const float larger = fmaxf(max, x.x);
      sum = sum * tile::RescaleFactor(max, larger) + x.y * tile::Exp2Guarded(x.x, larger);
      max = larger;
    }
    const float largest = tile::WarpMax(max);
    sum = tile::WarpSum(sum * tile::Exp2Guarded(max, largest));
    float o[kVectors][4] = {};
#pragma unroll 4
    for (int i = 0; i < block.piece.num_partials; ++i) {
      const int64_t row = first + i * step;
      const float weight = tile::Exp2Guarded(__ldcg(ml + row).x, largest);
#pragma unroll
      for (int n = 0; n < kVectors; ++n) {
        const int column = (n * 32 + lane) * 4;
        if (column >= T::kVoColumns) continue;
        const float4 x =
            __ldcg(reinterpret_cast<const float4*>(p.partial_o + row * T::kVoColumns + column));
        o[n][0] += weight * x.x;
        o[n][1] += weight * x.y;
        o[n][2] += weight * x.z;
        o[n][3] += weight * x.w;
      }
    }
    const Row row = RowAt(p, block, index);
    const auto result = Finish<T>(p, block, row, largest, sum);
    if (lane == 0) WriteLse<T>(p, block, row, result.lse);
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const int column = (n * 32 + lane) * 4;
      if (column >= T::kVoColumns || block.vo_begin + column >= p.head_dim_vo) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) o[n][j] = OutputOf<T>(p, block, row, column + j, result, o[n][j]);
      StoreFloats<T::kS.dtype_out, 4, T::kS.out_access_bytes>(
          tile::At<T::kS.dtype_out>(p.out, OutputAt(p, block, row) + column), o[n]);
    }
  }
}

}  // namespace flashinfer::kernels::prefill_mma
