// SPDX-License-Identifier: Apache-2.0
// The threads that make a plan: a block, and what they do together.
#pragma once

#include "kernels/portable.h"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels {

/// What a sum is after adding those of the lanes before.
__device__ __forceinline__ int64_t WarpScan(int64_t x, int lane) {
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    const int64_t before = __shfl_up_sync(tile::kFullWarp, x, delta);
    if (lane >= delta) x += before;
  }
  return x;
}

template <int kThreads>
struct PlanBlock {
  static constexpr int kWarps = kThreads / 32;
  static_assert(kThreads % 32 == 0 && kWarps <= 32, "a warp adds up the warps' sums");

  int64_t* warp_sums;  // [32], shared memory
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;

  template <class F>
  __device__ __forceinline__ void ForEach(int32_t n, F f) const {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += kThreads) f(i);
  }
  __device__ __forceinline__ void Sync() const { __syncthreads(); }

  /// The largest x of all threads, and 0; ends with Sync().
  __device__ __forceinline__ int64_t Max(int64_t x) const {
    const auto of_warp = [](int64_t y) {
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) {
        y = max(y, __shfl_xor_sync(tile::kFullWarp, y, mask));
      }
      return y;
    };
    x = of_warp(x);
    if (lane == 0) warp_sums[warp] = x;
    __syncthreads();
    const int64_t largest = of_warp(lane < kWarps ? warp_sums[lane] : 0);
    __syncthreads();
    return largest;
  }

  /// Adds to each of x[0] to x[n - 1] those before it; gives the sum; ends with Sync(). Every
  /// thread has a row of neighbours.
  __device__ __forceinline__ int64_t Scan(int64_t* x, int32_t n) const {
    const int32_t count = (n + kThreads - 1) / kThreads;
    const int32_t begin = min(n, static_cast<int32_t>(threadIdx.x) * count);
    const int32_t end = min(n, begin + count);
    int64_t sum = 0;
    for (int32_t i = begin; i < end; ++i) sum += x[i];
    const int64_t scanned = WarpScan(sum, lane);
    if (lane == 31) warp_sums[warp] = scanned;
    __syncthreads();
    const int64_t warps = WarpScan(lane < kWarps ? warp_sums[lane] : 0, lane);
    const int64_t warps_before = __shfl_sync(tile::kFullWarp, warps, max(warp - 1, 0));
    const int64_t total = __shfl_sync(tile::kFullWarp, warps, 31);
    int64_t before = scanned - sum + (warp > 0 ? warps_before : 0);
    for (int32_t i = begin; i < end; ++i) {
      before += x[i];
      x[i] = before;
    }
    __syncthreads();
    return total;
  }
};

}  // namespace flashinfer::kernels
