// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: griddepcontrol, SM90 and later; nothing before.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// Waits until the kernels that this one depends on have ended and their writes can be seen.
__device__ __forceinline__ void griddepcontrol_wait() {
#if FLASHINFER_ARCH >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the kernels that depend on this one start.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if FLASHINFER_ARCH >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace flashinfer::kernels::ptx
