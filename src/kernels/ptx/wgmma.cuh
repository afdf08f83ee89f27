// SPDX-License-Identifier: Apache-2.0
// wgmma: a warpgroup multiplies tiles in the background, SM90a. Order, waiting, and descriptors of
// tiles in shared memory; the instruction itself is in wgmma_shared.cuh and wgmma_registers.cuh.
//
// Accumulators of m64nN: warp w holds rows 16 w to 16 w + 15, d[4 j] to d[4 j + 3] as a fragment D
// of mma.sync for columns 8 j to 8 j + 7.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/wgmma_registers.cuh"
#include "kernels/ptx/wgmma_shared.cuh"

namespace flashinfer::kernels::ptx {

/// Before the first wgmma, and whenever other instructions wrote its registers.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending groups are not done.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving accesses to accumulators across this point: after a wait, and
/// before a fence.
template <int kSize>
__device__ __forceinline__ void wgmma_hold(float (&d)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// How 16-byte pieces of a tile's lines are permuted; see tile/swizzle.h.
enum class DescriptorSwizzle : uint8_t { kNone = 0, k128B = 1, k64B = 2, k32B = 3 };

/// A tile in shared memory, whose lines are as long as the swizzle's span: 128, 64 or 32 bytes.
///
/// K-major: a line is a row; `stride_bytes` lies between groups of 8 rows; `leading_bytes` is not
/// used. The next 32 bytes of k are at `tile` + 32. MN-major: a line is 64 (32, 16) rows of one k;
/// `stride_bytes` lies between groups of 8 k, `leading_bytes` between groups of 64 (32, 16) rows.
/// Tiles of swizzled lines are aligned to 8 lines.
template <DescriptorSwizzle kSwizzle>
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes,
                                                     uint32_t stride_bytes) {
  const uint64_t start = (shared_address(tile) & 0x3ffffu) >> 4;
  return start | (uint64_t{leading_bytes >> 4} << 16) | (uint64_t{stride_bytes >> 4} << 32) |
         (static_cast<uint64_t>(kSwizzle) << 62);
}

}  // namespace flashinfer::kernels::ptx
