// SPDX-License-Identifier: Apache-2.0
// Probes of wgmma and setmaxnreg: a warpgroup multiplies one tile of A with one of B.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/tile/copy.cuh"

namespace flashinfer::probe {

using namespace kernels;

inline constexpr int kWarpgroup = 128;

/// Rows of kRowBytes in panels of kSpan bytes, for the tensor cores to see.
template <int kRows, int kRowBytes, int kSpan>
__device__ __forceinline__ void LoadPanels(char* shared, const void* from) {
  const auto* rows = static_cast<const char*>(from);
  tile::CopyRows<kWarpgroup, kRows, kRowBytes, kSpan>(
      shared, kRows, [&](int row) { return rows + row * kRowBytes; });
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  ptx::fence_proxy_async_shared();
}

/// out: [64, kN] f32.
template <int kN>
__device__ __forceinline__ void StoreAccumulators(const ProbeParams& p, const float (&d)[kN / 2]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < kN / 2; ++i) {
    const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    static_cast<float*>(p.out)[row * kN + column] = d[i];
  }
}

constexpr ptx::DescriptorSwizzle SwizzleOf(int span) {
  return span == 128  ? ptx::DescriptorSwizzle::k128B
         : span == 64 ? ptx::DescriptorSwizzle::k64B
                      : ptx::DescriptorSwizzle::k32B;
}

/// A [64, 128 bytes of k] and B's columns [kN, 128 bytes of k], both k-major.
template <DType kDType, int kN, int kSpan>
__device__ void WgmmaKMajor(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  char* a = shared;
  char* b = shared + 64 * 128;
  LoadPanels<64, 128, kSpan>(a, p.a);
  LoadPanels<kN, 128, kSpan>(b, p.b);
  __syncthreads();
  float d[kN / 2];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    // Panels follow each other; within one, k goes on by 32 bytes.
    const int panel = k * 32 / kSpan;
    const int byte = k * 32 % kSpan;
    const uint64_t a_tile =
        ptx::wgmma_descriptor<SwizzleOf(kSpan)>(a + panel * 64 * kSpan + byte, 16, 8 * kSpan);
    const uint64_t b_tile =
        ptx::wgmma_descriptor<SwizzleOf(kSpan)>(b + panel * kN * kSpan + byte, 16, 8 * kSpan);
    ptx::wgmma_shared<kDType, kN>(d, a_tile, b_tile, k > 0);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_hold(d);
  StoreAccumulators<kN>(p, d);
}

/// 16-bit types: A [64 k, 64 rows] and B [64 k, kN columns], rows and columns contiguous.
template <DType kDType, int kN>
__device__ void WgmmaMnMajor(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  char* a = shared;
  char* b = shared + 64 * 128;
  LoadPanels<64, 128, 128>(a, p.a);
  LoadPanels<64, kN * 2, 128>(b, p.b);
  __syncthreads();
  float d[kN / 2];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int byte = k * 16 * 128;
    using ptx::DescriptorSwizzle;
    const auto a_tile = ptx::wgmma_descriptor<DescriptorSwizzle::k128B>(a + byte, 64 * 128, 1024);
    const auto b_tile = ptx::wgmma_descriptor<DescriptorSwizzle::k128B>(b + byte, 64 * 128, 1024);
    ptx::wgmma_shared<kDType, kN, ptx::Major::kMn, ptx::Major::kMn>(d, a_tile, b_tile, k > 0);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_hold(d);
  StoreAccumulators<kN>(p, d);
}

/// WgmmaKMajor() with A [64, 32 words of k] in registers.
template <DType kDType, int kN>
__device__ void WgmmaRegisters(const ProbeParams& p) {
  extern __shared__ __align__(1024) char shared[];
  LoadPanels<kN, 128, 128>(shared, p.b);
  __syncthreads();
  const auto* words = static_cast<const uint32_t*>(p.a);
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  uint32_t a[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t* at = words + row * 32 + k * 8 + threadIdx.x % 4;
    a[k][0] = at[0], a[k][1] = at[8 * 32], a[k][2] = at[4], a[k][3] = at[8 * 32 + 4];
  }
  float d[kN / 2];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const auto b = ptx::wgmma_descriptor<ptx::DescriptorSwizzle::k128B>(shared + k * 32, 16, 1024);
    ptx::wgmma_registers<kDType, kN>(d, a[k], b, k > 0);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_hold(d);
  StoreAccumulators<kN>(p, d);
}

/// Two warpgroups; the first gives registers to the second, which needs more than 128 a thread:
/// out [2, 128] are sums of 180 values a [180, 128].
__device__ void MoveRegisters(const ProbeParams& p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpgroup;
  const auto* a = static_cast<const uint32_t*>(p.a) + lane;
  auto* out = static_cast<uint32_t*>(p.out) + lane;
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<40>();
    uint32_t sum = 0;
    for (int i = 0; i < 180; ++i) sum += a[i * kWarpgroup];
    out[0] = sum;
  } else {
    ptx::setmaxnreg_inc<216>();
    uint32_t x[180];
#pragma unroll
    for (int i = 0; i < 180; ++i) x[i] = a[i * kWarpgroup];
#pragma unroll
    for (int i = 0; i < 180; ++i) asm volatile("" : "+r"(x[i]));  // all at the same time
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < 180; ++i) sum += x[i];
    out[kWarpgroup] = sum;
  }
}

}  // namespace flashinfer::probe
