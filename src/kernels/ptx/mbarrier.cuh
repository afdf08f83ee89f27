// SPDX-License-Identifier: Apache-2.0
// mbarrier: barriers in shared memory that threads and copies arrive at; SM90.
//
// A phase ends when as many have arrived as the barrier was made for, and all announced bytes have
// come. Phases alternate in parity, beginning with 0; waiting for parity 1 of a barrier that was
// just made returns at once, as if a phase had ended.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

/// By one thread; the others see it after mbarrier_init_fence() by that thread and a barrier.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t num_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(num_arrivals)
               : "memory");
}

/// Makes barriers known to the whole cluster, and to the copy engine.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Ends a barrier's life, so that its memory may be used for something else.
__device__ __forceinline__ void mbarrier_inval(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// Arrives, and announces bytes that the phase waits for.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Announces bytes without arriving.
__device__ __forceinline__ void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Arrives at the barrier of another block of the cluster, which lies where `barrier` lies here.
__device__ __forceinline__ void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];}" ::"r"(
          shared_address(barrier)),
      "r"(rank)
      : "memory");
}

/// Whether the phase of this parity has ended; waits for a short while.
__device__ __forceinline__ bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
  uint32_t has_ended;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(has_ended)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return has_ended != 0;
}

__device__ __forceinline__ void mbarrier_wait_parity(uint64_t* barrier, uint32_t parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
}

/// Arrives when all cp.async of this thread so far are done; counts among the barrier's arrivals.
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

}  // namespace flashinfer::kernels::ptx
