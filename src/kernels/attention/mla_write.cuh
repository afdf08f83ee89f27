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

/// Outputs of the rows, or a partial result and, by the last block to leave one, their merge.
template <class T>
__device__ __forceinline__ void WriteResult(const PrefillParams& p, const Block& block,
                                            const Warp<T>& w, typename T::SharedStorage& shared,
                                            prefill_mma::State<T>& state) {
  SumRows<T>(block, w, shared, state);
  if (block.piece.partial < 0) {
    Block slice = block;
    slice.vo_begin = w.column_begin;  // as if the warp were a block
    prefill_mma::WriteOutputs<T>(p, slice, w, state);
    return;
  }
  WritePartial<T>(p, block, w, state);
  if (prefill_mma::IsLast<T>(p, block, shared)) prefill_mma::MergePartials<T>(p, block);
}

}  // namespace flashinfer::kernels::mla_mma
