// SPDX-License-Identifier: Apache-2.0
// prefetch: bringing memory nearer before it is read.
#pragma once

namespace flashinfer::kernels::ptx {

/// Fetches the line at `from`, of global memory, into the L2 cache.
__device__ __forceinline__ void prefetch_L2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

}  // namespace flashinfer::kernels::ptx
