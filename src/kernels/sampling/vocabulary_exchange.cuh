// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over all threads of a row, which may be those of a cluster of blocks.
#pragma once

#include "kernels/ptx/cluster.cuh"
#include "kernels/sampling/vocabulary_tile.h"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::sampling {

/// The first kNumMaxima words of an exchange are compared, the others added.
template <int kNumMaxima>
struct MaximaAndSums {
  __device__ __forceinline__ static constexpr bool IsSum(int word) { return word >= kNumMaxima; }
  __device__ __forceinline__ static uint64_t Of(int word, uint64_t a, uint64_t b) {
    return IsSum(word) ? a + b : a > b ? a : b;
  }
};
using SumOf = MaximaAndSums<0>;
using MaxOf = MaximaAndSums<kExchangeWords>;

/// Word `word` over groups of kLanes neighbouring lanes.
template <int kLanes, class Op>
__device__ __forceinline__ uint64_t LaneReduce(int word, uint64_t x, Op op) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    x = op.Of(word, x, __shfl_xor_sync(tile::kFullWarp, x, mask));
  }
  return x;
}

/// Over a warp, of numbers below 2^62.
__device__ __forceinline__ uint64_t WarpSum64(uint64_t x) {
#if FLASHINFER_ARCH >= 800
  constexpr uint32_t kMask = (1u << 26) - 1;
  const auto part = [&](int shift) -> uint64_t {
    return __reduce_add_sync(tile::kFullWarp, static_cast<uint32_t>(x >> shift) & kMask);
  };
  return part(0) + (part(26) << 26) + (part(52) << 52);
#else
  return LaneReduce<32>(0, x, SumOf());
#endif
}

__device__ __forceinline__ uint32_t WarpMax32(uint32_t x) {
#if FLASHINFER_ARCH >= 800
  return __reduce_max_sync(tile::kFullWarp, x);
#else
  return static_cast<uint32_t>(LaneReduce<32>(0, x, MaxOf()));
#endif
}

template <class Op>
__device__ __forceinline__ uint64_t WarpReduce(int word, uint64_t x, Op op) {
  if (op.IsSum(word)) return WarpSum64(x);
  const uint32_t high = WarpMax32(static_cast<uint32_t>(x >> 32));
  const bool is_high = x >> 32 == high;
  return (uint64_t{high} << 32) | WarpMax32(is_high ? static_cast<uint32_t>(x) : 0);
}

/// All threads of all blocks of the row take part in each exchange.
template <int kWarps, int kCluster>
class Exchange {
 public:
  struct Storage {
    uint64_t by_warp[2][kWarps][kExchangeWords];
    uint64_t by_block[2][kCluster][kExchangeWords];
  };

  /// Other blocks' shared memory may be written once they have begun, which is waited for later.
  __device__ __forceinline__ explicit Exchange(Storage& storage) : s_(storage) {
#if FLASHINFER_ARCH >= 900
    if constexpr (kCluster > 1) ptx::barrier_cluster_arrive();
#endif
  }

  __device__ __forceinline__ static uint32_t BlockRank() {
    return kCluster == 1 ? 0 : blockIdx.x % kCluster;
  }
  /// Of the row's warps.
  __device__ __forceinline__ static uint32_t WarpRank() {
    return BlockRank() * kWarps + threadIdx.x / 32;
  }

  /// Each word over all threads; every thread gets the results. `send()` may write to the shared
  /// memory of other blocks what this block's threads wrote to its own before; it is seen after.
  template <int kWords, class Op, class SendMore>
  __device__ __forceinline__ void Reduce(uint64_t (&x)[kWords], Op op, const SendMore& send) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) x[w] = WarpReduce(w, x[w], op);
    ReduceWarps(x, op, send);
  }
  template <int kWords, class Op>
  __device__ __forceinline__ void Reduce(uint64_t (&x)[kWords], Op op) {
    Reduce(x, op, [] {});
  }

  /// The same of words that are equal within each warp and count once for it.
  template <int kWords, class Op>
  __device__ __forceinline__ void ReduceWarps(uint64_t (&x)[kWords], Op op) {
    ReduceWarps(x, op, [] {});
  }
  template <int kWords, class Op, class SendMore>
  __device__ __forceinline__ void ReduceWarps(uint64_t (&x)[kWords], Op op, const SendMore& send) {
    parity_ ^= 1;
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (kWarps > 1) {
      if (lane == 0) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) s_.by_warp[parity_][threadIdx.x / 32][w] = x[w];
      }
      __syncthreads();
    } else {
      __syncwarp();  // a vote or a sum over lanes does not order what they wrote
    }
    if constexpr (kCluster == 1) {
      if constexpr (kWarps > 1) OverWarps(x, op);
    } else {
      WaitForBegin();
      Send(x, op);
      send();
      ClusterBarrier();
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        x[w] = LaneReduce<kCluster>(w, s_.by_block[parity_][lane % kCluster][w], op);
      }
    }
  }

  /// After ReduceWarps() with SumOf: the sum of word `w` over the warps before this one.
  __device__ __forceinline__ uint64_t Before(int w) const {
    const uint32_t lane = threadIdx.x % 32;
    uint64_t sum = 0;
    if (kWarps > 1 && lane < threadIdx.x / 32) sum = s_.by_warp[parity_][lane][w];
    if (kCluster > 1 && lane < BlockRank()) sum += s_.by_block[parity_][lane][w];
    return WarpSum64(sum);
  }

  /// After Reduce(), of which `x` is what it gave: word `w` of a block.
  __device__ __forceinline__ uint64_t OfBlock(int block, int w, uint64_t x) const {
    return kCluster == 1 ? x : s_.by_block[parity_][block][w];
  }

  /// What threads wrote to shared memory of their blocks is seen by all behind it.
  __device__ __forceinline__ static void Barrier() {
    if constexpr (kCluster == 1) {
      __syncthreads();
    } else {
      ClusterBarrier();
    }
  }

  /// The word at `pointer` in the shared memory of another block of the row.
  __device__ __forceinline__ static uint32_t ReadFrom(uint32_t block, const void* pointer) {
#if FLASHINFER_ARCH >= 900
    if constexpr (kCluster > 1) return ptx::ld_shared_cluster(ptx::mapa(pointer, block));
#endif
    return *static_cast<const uint32_t*>(pointer);
  }

 private:
  __device__ __forceinline__ void WaitForBegin() {
#if FLASHINFER_ARCH >= 900
    if (!has_begun_) ptx::barrier_cluster_wait();
#endif
    has_begun_ = true;
  }

  __device__ __forceinline__ static void ClusterBarrier() {
#if FLASHINFER_ARCH >= 900
    __syncwarp();  // the instructions take whole warps
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
#endif
  }

  template <int kWords, class Op>
  __device__ __forceinline__ void OverWarps(uint64_t (&x)[kWords], Op op) const {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      x[w] = LaneReduce<kWarps>(w, s_.by_warp[parity_][lane % kWarps][w], op);
    }
  }

  /// Warp r gives the block's words to block r.
  template <int kWords, class Op>
  __device__ __forceinline__ void Send(const uint64_t (&mine)[kWords], Op op) {
#if FLASHINFER_ARCH >= 900
    static_assert(kWarps >= kCluster, "a cluster needs a warp of each block for each block");
    const uint32_t warp = threadIdx.x / 32;
    if (warp >= kCluster) return;
    uint64_t x[kWords];
    for (int w = 0; w < kWords; ++w) x[w] = mine[w];
    OverWarps(x, op);
    if (threadIdx.x % 32 != 0) return;
    const auto to = ptx::mapa(&s_.by_block[parity_][BlockRank()][0], warp);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      ptx::st_shared_cluster(to + 8 * w, static_cast<uint32_t>(x[w]));
      ptx::st_shared_cluster(to + 8 * w + 4, static_cast<uint32_t>(x[w] >> 32));
    }
#endif
  }

  Storage& s_;
  int parity_ = 0;
  bool has_begun_ = false;
};

}  // namespace flashinfer::kernels::sampling
