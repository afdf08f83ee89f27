// SPDX-License-Identifier: Apache-2.0
// 32-bit words of a thread, loaded and stored in accesses as wide as their address allows.
#pragma once

#include "kernels/ptx/memory.cuh"

namespace flashinfer::kernels::tile {

/// kCount words as accesses of kBytes bytes (1, 2, 4, 8 or 16), to which `to` is aligned; those
/// from byte `size` on are left out.
template <int kBytes, int kCount>
__device__ __forceinline__ void StoreWords(void* to, int64_t size,
                                           const uint32_t (&words)[kCount]) {
  static_assert(kCount * 4 % kBytes == 0, "whole accesses");
  constexpr int kWords = ptx::Words<kBytes>::kCount;
#pragma unroll
  for (int i = 0; i < kCount * 4 / kBytes; ++i) {
    if (i * kBytes >= size) break;
    ptx::Words<kBytes> access;
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      access.w[j] = words[i * kBytes / 4 + j] >> (i * kBytes % 4 * 8);
    }
    ptx::st<kBytes>(static_cast<char*>(to) + i * kBytes, access);
  }
}

/// The other way round; what is left out is 0.
template <int kBytes, int kCount>
__device__ __forceinline__ void LoadWords(const void* from, int64_t size,
                                          uint32_t (&words)[kCount]) {
  static_assert(kCount * 4 % kBytes == 0, "whole accesses");
  constexpr int kWords = ptx::Words<kBytes>::kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) words[i] = 0;
#pragma unroll
  for (int i = 0; i < kCount * 4 / kBytes; ++i) {
    if (i * kBytes >= size) break;
    const auto access = ptx::ld<kBytes>(static_cast<const char*>(from) + i * kBytes);
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      words[i * kBytes / 4 + j] |= access.w[j] << (i * kBytes % 4 * 8);
    }
  }
}

}  // namespace flashinfer::kernels::tile
