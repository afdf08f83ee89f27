// SPDX-License-Identifier: Apache-2.0
// Atomic operations by which blocks meet.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// Adds to a counter that blocks share and returns what it was: the last of `limit + 1` calls sets
/// it to 0 again. What the block wrote before, and a barrier, is seen by the block that comes last.
__device__ __forceinline__ uint32_t atom_inc_acq_rel(uint32_t* counter, uint32_t limit) {
  uint32_t before;
#if __CUDA_ARCH__ >= 700
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(limit)
               : "memory");
#endif
  return before;
}

}  // namespace flashinfer::kernels::ptx
