// SPDX-License-Identifier: Apache-2.0
// bar.sync: barriers of some of a block's threads, or of all where warps wait at different places.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// Returns when kThreads threads, whole warps, have come to barrier kId, of 1 to 15; 0 is that of
/// __syncthreads(), which all threads must come to at one place.
template <int kId, int kThreads>
__device__ __forceinline__ void barrier_sync() {
  static_assert(kId >= 1 && kId <= 15 && kThreads % 32 == 0, "barrier 1 to 15, of whole warps");
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "n"(kThreads) : "memory");
}

}  // namespace flashinfer::kernels::ptx
