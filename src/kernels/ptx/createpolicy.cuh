// SPDX-License-Identifier: Apache-2.0
// createpolicy: how long data that is read or written stays in the L2 cache, and loads by it; SM80.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// For what nobody reads again soon: it leaves the cache first.
__device__ __forceinline__ uint64_t createpolicy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// For what many blocks read: it stays longest.
__device__ __forceinline__ uint64_t createpolicy_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// 16 bytes past the L1 cache.
__device__ __forceinline__ void ld_no_allocate_v4(uint32_t (&w)[4], const void* from,
                                                  uint64_t policy) {
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from), "l"(policy)
               : "memory");
}

}  // namespace flashinfer::kernels::ptx
