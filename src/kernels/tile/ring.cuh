// SPDX-License-Identifier: Apache-2.0
// A ring of stages in shared memory between those who fill it and those who read it, SM90.
#pragma once

#include "kernels/ptx/mbarrier.cuh"

namespace flashinfer::kernels::tile {

/// Where a reader or a writer is in a ring, and the parity that its stage's barriers have now.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/// The barriers of a ring, in shared memory. Writers wait for empty stages and announce bytes;
/// readers wait for full ones and release them. Nobody has to prime the ring: the first wait for an
/// empty stage returns at once.
template <int kStages>
struct RingBarriers {
  uint64_t full[kStages];
  uint64_t empty[kStages];

  /// By one thread, with a barrier of the block behind it.
  __device__ __forceinline__ void Init(uint32_t num_writers, uint32_t num_readers) {
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&full[i], num_writers);
      ptx::mbarrier_init(&empty[i], num_readers);
    }
    ptx::mbarrier_init_fence();
  }
  __device__ __forceinline__ void WaitEmpty(RingPosition<kStages> at) {
    ptx::mbarrier_wait_parity(&empty[at.stage], at.phase ^ 1);
  }
  __device__ __forceinline__ void WaitFull(RingPosition<kStages> at) {
    ptx::mbarrier_wait_parity(&full[at.stage], at.phase);
  }
  /// By each writer, before its copies of so many bytes that end at full[stage].
  __device__ __forceinline__ void Announce(RingPosition<kStages> at, uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(&full[at.stage], bytes);
  }
  /// By each reader.
  __device__ __forceinline__ void Release(RingPosition<kStages> at) {
    ptx::mbarrier_arrive(&empty[at.stage]);
  }
};

}  // namespace flashinfer::kernels::tile
