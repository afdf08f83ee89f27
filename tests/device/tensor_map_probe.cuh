// SPDX-License-Identifier: Apache-2.0
// Probes of the copy engine: bulk copies, boxes of tensors, and a ring between warps.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/cp_async_bulk.cuh"
#include "kernels/ptx/createpolicy.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/tile/ring.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// One block: copies `size` bytes of `a` to shared memory and on to `out`.
__device__ void CopyBulk(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    const auto bytes = static_cast<uint32_t>(p.size);
    ptx::mbarrier_init(&barrier, 1);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_arrive_expect_tx(&barrier, bytes);
    ptx::cp_async_bulk_load(shared, p.a, bytes, &barrier, ptx::createpolicy_evict_first());
    ptx::mbarrier_wait_parity(&barrier, 0);
    ptx::cp_async_bulk_store(p.out, shared, bytes, ptx::createpolicy_evict_last());
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group<0>();
  }
}

/// Loads the box at coordinates b[0 .. kRank) of `map`, leaves what shared memory holds in `out`,
/// and, if asked, stores it to the same coordinates of `map_out`. `size`: bytes of a box.
template <int kRank, bool kStores>
__device__ void CopyBox(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  __shared__ uint64_t barrier;
  int32_t c[kRank];
  for (int i = 0; i < kRank; ++i) c[i] = static_cast<const int32_t*>(p.b)[i];
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(p.map);
    ptx::mbarrier_init(&barrier, 1);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_expect_tx(&barrier, static_cast<uint32_t>(p.size));
    ptx::cp_async_bulk_tensor_load(shared, p.map, c, &barrier, ptx::createpolicy_evict_first());
    ptx::mbarrier_arrive(&barrier);
  }
  __syncthreads();
  ptx::mbarrier_wait_parity(&barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < p.size; i += 32) {
    static_cast<char*>(p.out)[i] = shared[i];
    shared[i] = shared[i];  // an ordinary write, which the engine is to see
  }
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (kStores && threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor_store(p.map_out, c, shared, ptx::createpolicy_evict_first());
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
    ptx::cp_async_bulk_wait_group<0>();
  }
}

/// Warp 0 fills a ring of kStages with `size` blocks of 1 KB of `a`; warps 1 to 3 read each block:
/// out [size, 3 warps, 32 lanes] are sums of a lane's 32 bytes.
template <int kStages>
__device__ void ReadRing(const ProbeParams& p) {
  __shared__ alignas(1024) uint32_t stages[kStages][256];
  __shared__ tile::RingBarriers<kStages> ring;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) ring.Init(1, 3);
  __syncthreads();
  tile::RingPosition<kStages> at;
  for (int i = 0; i < p.size; ++i) {
    if (warp == 0 && lane == 0) {
      ring.WaitEmpty(at);
      ring.Announce(at, 1024);
      ptx::cp_async_bulk_load(stages[at.stage], static_cast<const char*>(p.a) + i * 1024, 1024,
                              &ring.full[at.stage], ptx::createpolicy_evict_first());
    } else if (warp > 0) {
      ring.WaitFull(at);
      uint32_t sum = 0;
      for (int j = 0; j < 8; ++j) sum += stages[at.stage][lane * 8 + j];
      static_cast<uint32_t*>(p.out)[(i * 3 + warp - 1) * 32 + lane] = sum;
      __syncwarp();
      if (lane == 0) ring.Release(at);
    }
    at.Advance();
  }
}

/// 64 threads copy 16 bytes each by cp.async, which arrives at an mbarrier; out is what all then
/// see.
__device__ void ArriveByCopy(const ProbeParams& p) {
  __shared__ alignas(16) char shared[64 * 16];
  __shared__ uint64_t barrier;
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) {
    ptx::mbarrier_init(&barrier, 64);
    ptx::mbarrier_init_fence();
  }
  __syncthreads();
  ptx::cp_async<16>(shared + i * 16, static_cast<const char*>(p.a) + i * 16);
  ptx::cp_async_mbarrier_arrive_noinc(&barrier);
  ptx::mbarrier_wait_parity(&barrier, 0);
  const int other = 63 - i;
  ptx::st<16>(static_cast<char*>(p.out) + other * 16, ptx::ld<16>(shared + other * 16));
  __syncthreads();
  if (i == 0) ptx::mbarrier_inval(&barrier);
}

}  // namespace flashinfer::probe
