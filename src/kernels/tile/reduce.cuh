// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over a warp's lanes and a block's warps, the same bits in every lane.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::tile {

inline constexpr uint32_t kFullWarp = 0xffffffffu;

/// Over kLanes neighbouring lanes (a power of two).
template <int kLanes = 32>
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) x += __shfl_xor_sync(kFullWarp, x, mask);
  return x;
}

template <int kLanes = 32>
__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, mask));
  }
  return x;
}

/// Sums each of kCount values over kLanes neighbouring lanes, and leaves each lane with its share:
/// the value whose index has the lane's lowest bit as its highest bit, the next one as its next,
/// and so on, first in `x`; with more lanes than values, lanes that differ in higher bits only have
/// the same. Takes about kCount shuffles where sums one by one take kCount · log2 kLanes. Lanes
/// whose place i holds value i ^ (the share's index), as far as the first log2 kPermuted bits go,
/// need not select what they keep there.
template <int kCount, int kLanes, int kPermuted = 1, int kMask = 1, int kSize>
__device__ __forceinline__ void SumScattered(float (&x)[kSize]) {
  static_assert(kCount <= kSize, "the array holds the values");
  if constexpr (kMask < kLanes) {
    if constexpr (kCount > 1) {
      constexpr int kHalf = kCount / 2;
      const bool is_upper = kPermuted == 1 && (threadIdx.x & kMask) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float kept = is_upper ? x[i + kHalf] : x[i];
        const float given = is_upper ? x[i] : x[i + kHalf];
        x[i] = kept + __shfl_xor_sync(kFullWarp, given, kMask);
      }
      SumScattered<kHalf, kLanes, (kPermuted > 1 ? kPermuted / 2 : 1), kMask * 2>(x);
    } else {
      x[0] += __shfl_xor_sync(kFullWarp, x[0], kMask);
      SumScattered<1, kLanes, 1, kMask * 2>(x);
    }
  }
}

/// Over all threads of a block of kThreads; `partials` is shared memory of kThreads / 32 floats
/// that nobody else uses until the next barrier.
template <int kThreads>
__device__ __forceinline__ float BlockSum(float x, float* partials) {
  x = WarpSum(x);
  if constexpr (kThreads == 32) return x;
  constexpr int kWarps = kThreads / 32;
  if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = x;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Fewer warps than lanes: they repeat, and the sum is over the first kWarps lanes' pattern.
  return WarpSum<kWarps>(partials[lane % kWarps]);
}

}  // namespace flashinfer::kernels::tile
