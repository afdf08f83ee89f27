// SPDX-License-Identifier: Apache-2.0
// The plan of a batch's decode, from lengths on the device. One block: all threads add up costs and
// write pieces, the first warp walks from slot to slot, looking at 32 requests at a time. Bound by
// the latency of that walk.
#pragma once

#include "kernels/attention/decode_plan_spec.h"
#include "kernels/attention/decode_plan_walk.h"
#include "kernels/attention/plan_block.cuh"

namespace flashinfer::kernels::decode_plan_simt {

template <DecodePlanSpec kSpec>
struct Traits {
  static constexpr int kThreads = kSpec.block_threads;

  struct SharedStorage {
    int64_t sums[kSpec.max_requests];
    int64_t warp_sums[32];
    int32_t num_pieces[kSpec.max_requests];
    DecodeWalk walk;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// The threads of a planner: a block.
template <class T>
struct Block : PlanBlock<T::kThreads> {
  using PlanBlock<T::kThreads>::lane;
  using PlanBlock<T::kThreads>::warp;
  typename T::SharedStorage& shared;

  __device__ __forceinline__ explicit Block(typename T::SharedStorage& storage)
      : PlanBlock<T::kThreads>{storage.warp_sums}, shared(storage) {}

  template <class F>
  __device__ __forceinline__ DecodeWalk Once(F f) const {
    if (warp == 0) {
      const DecodeWalk walk = f();
      if (lane == 0) shared.walk = walk;
    }
    __syncthreads();
    const DecodeWalk walk = shared.walk;
    __syncthreads();  // before the next one is written
    return walk;
  }

  __device__ __forceinline__ int32_t NumThatFit(const int64_t* x, int32_t n, int64_t base,
                                                int64_t room) const {
    for (int32_t begin = 0;; begin += 32) {
      const int32_t i = begin + lane;
      const uint32_t fits = __ballot_sync(tile::kFullWarp, i < n && x[i] - base <= room);
      if (fits != tile::kFullWarp) return begin + __popc(fits);
    }
  }
  __device__ __forceinline__ bool IsFirst() const { return lane == 0; }
};

/// Page tables as they are in memory. What Plan() on the host would refuse is taken for the nearest
/// that it accepts; a request whose pages end before they begin has none.
struct BatchOnDevice {
  const DecodePlanParams& p;
  int32_t num_requests = p.num_requests;
  int32_t window_left = p.window_left;

  __device__ __forceinline__ int32_t PageAt(int32_t i) const {
    return min(max(p.indptr[i * p.indptr_stride], 0), p.max_pages);
  }
  __device__ __forceinline__ int64_t PageBegin(int32_t b) const { return PageAt(b); }
  __device__ __forceinline__ int64_t KvLen(int32_t b) const {
    const int32_t num_pages = PageAt(b + 1) - PageAt(b);
    const int32_t last_len = min(max(p.last_page_len[b * p.last_page_len_stride], 1), p.page_size);
    return num_pages > 0 ? int64_t{num_pages - 1} * p.page_size + last_len : 0;
  }
};

template <DecodePlanSpec kSpec>
__device__ __forceinline__ void Run(const DecodePlanParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  DecodePlanMemory memory = p.memory;
  memory.sums = shared.sums;
  memory.num_pieces = shared.num_pieces;
  const BatchOnDevice batch{p};
  Block<T> block(shared);
  DecodePlanner<Block<T>, BatchOnDevice>(block, batch, p.limits, memory).Run();
  block.ForEach(p.limits.num_slots,
                [&](int32_t s) { p.slots[s] = DecodeSlotOf(memory.pieces, memory.slot_begin, s); });
}

}  // namespace flashinfer::kernels::decode_plan_simt
