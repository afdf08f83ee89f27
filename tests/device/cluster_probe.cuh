// SPDX-License-Identifier: Apache-2.0
// Probes of clusters: blocks of 32 threads that read and write each other's shared memory.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// out [block, 4, 32]: rank and size of the cluster; what the next block left here for this lane by
/// a store; what this block reads there, one word and the last of four.
__device__ void ExchangeByBarrier(const ProbeParams& p) {
  __shared__ alignas(16) uint32_t received[32];
  __shared__ alignas(16) uint32_t own[128];
  const uint32_t rank = ptx::cluster_ctarank();
  const uint32_t count = ptx::cluster_nctarank();
  const uint32_t lane = threadIdx.x;
  for (uint32_t i = lane; i < 128; i += 32) own[i] = rank * 1000 + i;
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  const uint32_t next = (rank + 1) % count;
  const uint32_t before = (rank + count - 1) % count;
  ptx::st_shared_cluster(ptx::mapa(&received[lane], before), rank * 100 + lane);
  const uint32_t word = ptx::ld_shared_cluster(ptx::mapa(&own[lane], next));
  const uint4 words = ptx::ld_shared_cluster_v4(ptx::mapa(&own[lane * 4], next));
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  auto* out = static_cast<uint32_t*>(p.out) + blockIdx.x * 128 + lane;
  out[0] = rank * 16 + count;
  out[32] = received[lane];
  out[64] = word;
  out[96] = words.w;
}

/// out [block, 5, 32]: what all other blocks together sent by st.async to this one: a word a lane
/// in place `rank`, and a lane's four words of the block before.
__device__ void ExchangeByMbarrier(const ProbeParams& p) {
  __shared__ alignas(16) uint32_t words[8][32];
  __shared__ alignas(16) uint4 vectors[32];
  __shared__ uint64_t full;
  __shared__ uint64_t read;
  const uint32_t rank = ptx::cluster_ctarank();
  const uint32_t count = ptx::cluster_nctarank();
  const uint32_t lane = threadIdx.x;
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&read, count);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_arrive_expect_tx(&full, count * 128 + 512);
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  for (uint32_t to = 0; to < count; ++to) {
    ptx::st_async(ptx::mapa(&words[rank][lane], to), rank * 100 + lane, ptx::mapa(&full, to));
  }
  const uint32_t next = (rank + 1) % count;
  const uint4 v{rank, lane, rank + lane, 7};
  ptx::st_async_v4(ptx::mapa(&vectors[lane], next), v, ptx::mapa(&full, next));
  ptx::mbarrier_wait_parity(&full, 0);
  auto* out = static_cast<uint32_t*>(p.out) + blockIdx.x * 160 + lane;
  uint32_t sum = 0;
  for (uint32_t from = 0; from < count; ++from) sum += words[from][lane];
  out[0] = sum;
  out[32] = vectors[lane].x;
  out[64] = vectors[lane].y;
  out[96] = vectors[lane].z;
  out[128] = vectors[lane].w;
  // Nobody ends before all have heard from everybody.
  if (lane < count) ptx::mbarrier_arrive_cluster(&read, lane);
  ptx::mbarrier_wait_parity(&read, 0);
  __syncwarp();
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

}  // namespace flashinfer::probe
