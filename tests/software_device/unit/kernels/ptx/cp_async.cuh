// SPDX-License-Identifier: Apache-2.0
// cp.async: the device copies when the thread waits for it, not before; at once below SM80.
#pragma once

#include "kernels/ptx/address.cuh"
#include "kernels/ptx/memory.cuh"

namespace flashinfer::kernels::ptx {

template <int kBytes>
inline void cp_async(void* to_shared, const void* from) {
  if constexpr (kBytes < 4 || FLASHINFER_ARCH < 800) {
    st<kBytes>(to_shared, ld<kBytes>(from));
  } else {
    software_device::services->CopyAsync(to_shared, from, kBytes);
  }
}

inline void cp_async_zfill(void* to_shared, const void* from, bool is_there) {
  if constexpr (FLASHINFER_ARCH < 800) {
    st<16>(to_shared, is_there ? ld<16>(from) : Words<16>{});
  } else {
    software_device::services->CopyAsync(to_shared, is_there ? from : nullptr, 16);
  }
}

inline void cp_async_commit_group() {
  if constexpr (FLASHINFER_ARCH >= 800) software_device::services->CommitGroup();
}

template <int kPending>
inline void cp_async_wait_group() {
  if constexpr (FLASHINFER_ARCH >= 800) software_device::services->WaitGroup(kPending);
}

}  // namespace flashinfer::kernels::ptx
