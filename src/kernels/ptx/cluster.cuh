// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks: who is who, their barrier, and each other's shared memory; SM90.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

__device__ __forceinline__ uint32_t cluster_ctarank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ uint32_t cluster_nctarank() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

/// By all lanes of a warp together, as the wait: after a loop that lanes leave one by one,
/// __syncwarp() first. What this thread wrote, shared memory of other blocks included, is seen
/// behind their wait.
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address, in the cluster's window, of what lies at `pointer` in this block's shared memory,
/// in block `rank`.
__device__ __forceinline__ uint32_t mapa(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

__device__ __forceinline__ uint32_t ld_shared_cluster(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ uint4 ld_shared_cluster_v4(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void st_shared_cluster(uint32_t address, uint32_t value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// Adds, and says what was there before.
__device__ __forceinline__ uint32_t atom_add_shared_cluster(uint32_t address, uint32_t value) {
  uint32_t before;
  asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(address), "r"(value)
               : "memory");
  return before;
}

/// Stores 4 bytes to another block in the background, and tells that block's mbarrier. Both
/// addresses are those of mapa(). Only in launches with clusters of two blocks or more.
__device__ __forceinline__ void st_async(uint32_t address, uint32_t value, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
      "r"(value), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void st_async_v4(uint32_t address, uint4 v, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
}

}  // namespace flashinfer::kernels::ptx
