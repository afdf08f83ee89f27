// SPDX-License-Identifier: Apache-2.0
// setmaxnreg: warpgroups hand registers to each other, SM90a.
//
// It takes effect only in a kernel with a register limit (launch bounds with a minimum of blocks),
// executed by all warps of a warpgroup, each role being one branch.
#pragma once

namespace flashinfer::kernels::ptx {

/// Keeps kRegisters a thread, a multiple of 8 from 24 to 256.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0,
                "registers must be a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Waits until others have given up enough.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0,
                "registers must be a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace flashinfer::kernels::ptx
