// SPDX-License-Identifier: Apache-2.0
// Products of f32 tiles in shared memory on CUDA cores, with results in the places that mma.sync
// gives them: of each 16 x 8 tile, a lane has rows lane / 4 and lane / 4 + 8, and columns
// lane % 4 * 2 and the next.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::simt {

__device__ __forceinline__ float4 Load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

__device__ __forceinline__ void AddDot(float& d, const float4& a, const float4& b) {
  d = fmaf(a.x, b.x, d);
  d = fmaf(a.y, b.y, d);
  d = fmaf(a.z, b.z, d);
  d = fmaf(a.w, b.w, d);
}

/// d += A B^T over kColumns columns, a multiple of 4. A has 16 rows, B 8 of each tile; both are
/// [row, column], 16-byte aligned, kStride from row to row.
template <int kColumns, int kStride, int kTiles>
__device__ __forceinline__ void MultiplyRows(const float* a, const float* b, int lane,
                                             float (&d)[kTiles][4]) {
  a += lane / 4 * kStride;
  b += lane % 4 * 2 * kStride;
#pragma unroll 2
  for (int c = 0; c < kColumns; c += 4) {
    const float4 a0 = Load4(a + c);
    const float4 a1 = Load4(a + 8 * kStride + c);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float4 column = Load4(b + (n * 8 + j) * kStride + c);
        AddDot(d[n][j], a0, column);
        AddDot(d[n][2 + j], a1, column);
      }
    }
  }
}

/// d += W B of 16 rows of weights, [row, key], over kKeys keys, an even number, and rows of 8
/// columns a tile, [key, column]. Weights of 0 take nothing from values that are no numbers.
template <int kKeys, int kWeightStride, int kStride, int kTiles>
__device__ __forceinline__ void MultiplyColumns(const float* weights, const float* b, int lane,
                                                float (&d)[kTiles][4]) {
  weights += lane / 4 * kWeightStride;
  b += lane % 4 * 2;
#pragma unroll 1
  for (int key = 0; key < kKeys; key += 2) {
    const float2 w0 = *reinterpret_cast<const float2*>(weights + key);
    const float2 w1 = *reinterpret_cast<const float2*>(weights + 8 * kWeightStride + key);
    const float upper[2] = {w0.x, w0.y};
    const float lower[2] = {w1.x, w1.y};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float2 x = *reinterpret_cast<const float2*>(b + (key + j) * kStride + n * 8);
        if (upper[j] != 0) {
          d[n][0] = fmaf(upper[j], x.x, d[n][0]);
          d[n][1] = fmaf(upper[j], x.y, d[n][1]);
        }
        if (lower[j] != 0) {
          d[n][2] = fmaf(lower[j], x.x, d[n][2]);
          d[n][3] = fmaf(lower[j], x.y, d[n][3]);
        }
      }
    }
  }
}

}  // namespace flashinfer::kernels::simt
