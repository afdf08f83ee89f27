// SPDX-License-Identifier: Apache-2.0
// createpolicy: how long data that is read or written stays in the L2 cache, SM80.
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

}  // namespace flashinfer::kernels::ptx
