// SPDX-License-Identifier: Apache-2.0
// fence.proxy.async: order between ordinary accesses and those of copy engine and tensor cores,
// SM90.
#pragma once

namespace flashinfer::kernels::ptx {

/// By each thread that wrote shared memory, before the barrier behind which the copy engine or
/// wgmma reads it.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace flashinfer::kernels::ptx
