// SPDX-License-Identifier: Apache-2.0
// Probes of copies to swizzled shared memory.
#pragma once

#include "device/probe_params.h"
#include "kernels/tile/copy.cuh"

namespace flashinfer::probe {

using namespace kernels;

inline constexpr int kCopyThreads = 128;

/// out: what shared memory holds after a copy of `size` of kRows rows of `a`.
template <int kRows, int kRowBytes, int kSpan>
__device__ void CopyRows(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  const auto* a = static_cast<const char*>(p.a);
  tile::CopyRows<kCopyThreads, kRows, kRowBytes, kSpan>(
      shared, static_cast<int>(p.size), [&](int row) { return a + int64_t{row} * kRowBytes; });
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kRowBytes; i += kCopyThreads) {
    static_cast<char*>(p.out)[i] = shared[i];
  }
}

/// Copies [16, 32 lanes] pieces of kBytes through a ring of three groups, each lane its own.
template <int kBytes>
__device__ void CopyInGroups(const ProbeParams& p) {
  __shared__ alignas(16) char ring[3][32][kBytes];
  const auto* a = static_cast<const char*>(p.a);
  auto* out = static_cast<char*>(p.out);
  const int lane = static_cast<int>(threadIdx.x);
  const auto copy = [&](int i) {
    if (i < 16) ptx::cp_async<kBytes>(ring[i % 3][lane], a + (i * 32 + lane) * kBytes);
    ptx::cp_async_commit_group();
  };
  copy(0);
  copy(1);
  for (int i = 0; i < 16; ++i) {
    ptx::cp_async_wait_group<1>();
    copy(i + 2);
    ptx::st<kBytes>(out + (i * 32 + lane) * kBytes, ptx::ld<kBytes>(ring[i % 3][lane]));
  }
}

}  // namespace flashinfer::probe
