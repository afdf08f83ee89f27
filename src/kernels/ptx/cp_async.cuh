// SPDX-License-Identifier: Apache-2.0
// cp.async: copies from global to shared memory that go on in the background, SM80; at once before.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/memory.cuh"

namespace flashinfer::kernels::ptx {

/// Copies kBytes; done after cp_async_wait_group(). Fewer than 4 bytes go at once.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* to_shared, const void* from) {
#if FLASHINFER_ARCH >= 800
  if constexpr (kBytes < 4) {
    st<kBytes>(to_shared, ld<kBytes>(from));
  } else if constexpr (kBytes == 16) {
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to_shared)),
        "l"(from)
        : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to_shared)),
                 "l"(from), "n"(kBytes)
                 : "memory");
  }
#else
  st<kBytes>(to_shared, ld<kBytes>(from));
#endif
}

/// cp_async() of 16 bytes where `is_there`, else of zeros; `from` is not read then.
__device__ __forceinline__ void cp_async_zfill(void* to_shared, const void* from, bool is_there) {
#if FLASHINFER_ARCH >= 800
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
      "l"(from), "r"(is_there ? 16 : 0)
      : "memory");
#else
  st<16>(to_shared, is_there ? ld<16>(from) : Words<16>{});
#endif
}

/// Ends a group of copies of this thread.
__device__ __forceinline__ void cp_async_commit_group() {
#if FLASHINFER_ARCH >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most kPending of this thread's groups are not done; the thread then sees what it
/// copied.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
#if FLASHINFER_ARCH >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace flashinfer::kernels::ptx
