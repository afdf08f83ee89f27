// SPDX-License-Identifier: Apache-2.0
// Latent attention: outputs and partial results of rows that 4 warps share.
#pragma once

#include "kernels/attention/mla_traits.cuh"
#include "kernels/attention/prefill_score.cuh"
#include "kernels/attention/prefill_write.cuh"

namespace flashinfer::kernels::mla_mma {

/// Sums of all keys, the same in all warps that share rows, and maxima as base-2 logits.
template <class T>
__device__ __forceinline__ void SumRows(const Block& block, const Warp<T>& w,
                                        typename T::SharedStorage& shared,
                                        prefill_mma::State<T>& state) {
  prefill_mma::SumRows<T>(state);
  if constexpr (T::kIsAhead) return;  // each warp had all weights
  SyncWarps<T>();                     // maxima were read
#pragma unroll
  for (int i = 0; i < 2 * T::kRowTiles; ++i) {
    const int row = w.RowOf(i / 2, i % 2);
    if (w.has_keys() && w.lane % 4 == 0) shared.rows[w.key_warp][row] = state.sum[i / 2][i % 2];
  }
  SyncWarps<T>();
#pragma unroll
  for (int i = 0; i < 2 * T::kRowTiles; ++i) {
    float& sum = state.sum[i / 2][i % 2];
    sum = 0;
#pragma unroll
    for (int k = 0; k < T::kKeyWarps; ++k) sum += shared.rows[k][w.RowOf(i / 2, i % 2)];
  }
}

template <class T>
__device__ __forceinline__ void WriteOutputs(const PrefillParams& p, const Block& block,
                                             const Warp<T>& w, const prefill_mma::State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = w.RowOf(m, half);
      if (index >= block.num_rows) continue;
      const prefill_mma::Row row = prefill_mma::RowAt(p, block, index);
      const auto result =
          prefill_mma::Finish<T>(p, block, row, state.max[m][half], state.sum[m][half]);
      if (w.lane % 4 == 0) prefill_mma::WriteLse<T>(p, block, row, result.lse);
      char* out =
          tile::At<T::kS.dtype_out>(p.out, prefill_mma::OutputAt(p, block, row) + w.ColumnOf(0));
      const int num_columns = p.head_dim_vo - block.vo_begin;
#pragma unroll
      for (int n = 0; n < T::kValueTiles; ++n) {
        if (n * 8 >= num_columns) break;
        const int column = w.ColumnOf(n);
        const float x[2] = {
            prefill_mma::OutputOf<T>(p, block, row, column, result, state.o[m][n][2 * half]),
            prefill_mma::OutputOf<T>(p, block, row, column + 1, result,
                                     state.o[m][n][2 * half + 1])};
        prefill_mma::StoreFloats<T::kS.dtype_out, 2, T::kS.out_access_bytes>(
            out + n * 8 * tile::SizeBytes(T::kS.dtype_out), x);
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void WritePartial(const PrefillParams& p, const Block& block,
                                             const Warp<T>& w, const prefill_mma::State<T>& state) {
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = w.RowOf(m, half);
      if (index >= block.num_rows) continue;
      const int64_t row = prefill_mma::PartialRow<T>(block, block.piece.partial) + index;
      if (w.lane % 4 == 0 && w.column_begin == 0) {
        reinterpret_cast<float2*>(p.partial_ml)[row] =
            make_float2(state.max[m][half], state.sum[m][half]);
      }
      float* to = p.partial_o + row * T::kVoColumns + w.column_begin + w.ColumnOf(0);
#pragma unroll
      for (int n = 0; n < T::kValueTiles; ++n) {
        if (w.column_begin + n * 8 >= T::kCkvColumns) break;
        *reinterpret_cast<float2*>(to + n * 8) =
            make_float2(state.o[m][n][2 * half], state.o[m][n][2 * half + 1]);
      }
    }
  }
}

/// Partial results of the block's rows in the order of keys: a warp a row.
template <class T>
__device__ __forceinline__ void MergePartials(const PrefillParams& p, const Block& block) {
  constexpr int kVectors = (T::kVoColumns / 4 + 31) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t step = int64_t{gridDim.y} * T::kRows;
  for (int index = static_cast<int>(threadIdx.x) / 32; index < block.num_rows;
       index += T::kThreads / 32) {
    const int64_t first = prefill_mma::PartialRow<T>(block, block.piece.first_partial) + index;
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
    const prefill_mma::Row row = prefill_mma::RowAt(p, block, index);
    const auto result = prefill_mma::Finish<T>(p, block, row, largest, sum);
    if (lane == 0) prefill_mma::WriteLse<T>(p, block, row, result.lse);
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const int column = (n * 32 + lane) * 4;
      if (column >= T::kVoColumns || block.vo_begin + column >= p.head_dim_vo) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        o[n][j] = prefill_mma::OutputOf<T>(p, block, row, column + j, result, o[n][j]);
      prefill_mma::StoreFloats<T::kS.dtype_out, 4, T::kS.out_access_bytes>(
          tile::At<T::kS.dtype_out>(p.out, prefill_mma::OutputAt(p, block, row) + column), o[n]);
    }
  }
}

/// Outputs of the rows, or a partial result and, by the last block to leave one, their merge.
template <class T>
__device__ __forceinline__ void WriteResult(const PrefillParams& p, const Block& block,
                                            const Warp<T>& w, typename T::SharedStorage& shared,
                                            prefill_mma::State<T>& state) {
  SumRows<T>(block, w, shared, state);
  if (block.piece.partial < 0) {
    Block slice = block;
    slice.vo_begin = w.column_begin;  // as if the warp were a block
    WriteOutputs<T>(p, slice, w, state);
    return;
  }
  WritePartial<T>(p, block, w, state);
  if (prefill_mma::IsLast<T>(p, block, shared)) MergePartials<T>(p, block);
}

}  // namespace flashinfer::kernels::mla_mma
