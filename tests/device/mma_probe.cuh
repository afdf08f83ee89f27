// SPDX-License-Identifier: Apache-2.0
// Probes of mma, ldmatrix, stmatrix, movmatrix, and of what multiplies and permutes bytes: one
// warp.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/integer.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/mma_s8.cuh"
#include "kernels/ptx/movmatrix.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// Fragments of A [16, kWords] and of B's columns [8, kWords], as words.
template <int kWords>
struct Fragments {
  uint32_t a[kWords / 2];
  uint32_t b[kWords / 4];
};

template <int kWords>
__device__ __forceinline__ Fragments<kWords> LoadFragments(const ProbeParams& p) {
  const auto* a = static_cast<const uint32_t*>(p.a);
  const auto* b = static_cast<const uint32_t*>(p.b);
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int pair = static_cast<int>(threadIdx.x) % 4;
  Fragments<kWords> f;
  for (int i = 0; i < kWords / 4; ++i) {
    f.a[2 * i] = a[group * kWords + pair + 4 * i];
    f.a[2 * i + 1] = a[(group + 8) * kWords + pair + 4 * i];
    f.b[i] = b[group * kWords + pair + 4 * i];
  }
  return f;
}

template <class T>
__device__ __forceinline__ void StoreFragment(const ProbeParams& p, const T (&d)[4]) {
  auto* out = static_cast<T*>(p.out);  // [16, 8]
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

// out = A B + 1, so that the accumulator counts.
__device__ void MmaK8(const ProbeParams& p) {
  const Fragments<4> f = LoadFragments<4>(p);
  float d[4] = {1, 1, 1, 1};
  ptx::mma_m16n8k8_f16(d, f.a, f.b[0]);
  StoreFragment(p, d);
}

template <DType kDType>
__device__ void MmaK16(const ProbeParams& p) {
  const Fragments<8> f = LoadFragments<8>(p);
  float d[4] = {1, 1, 1, 1};
  ptx::mma_m16n8k16<kDType>(d, f.a, f.b);
  StoreFragment(p, d);
}

template <DType kDTypeA, DType kDTypeB>
__device__ void MmaK32(const ProbeParams& p) {
  const Fragments<8> f = LoadFragments<8>(p);
  float d[4] = {1, 1, 1, 1};
  ptx::mma_m16n8k32<kDTypeA, kDTypeB>(d, f.a, f.b);
  StoreFragment(p, d);
}

__device__ void MmaK32S8(const ProbeParams& p) {
  const Fragments<8> f = LoadFragments<8>(p);
  int32_t d[4] = {1, 1, 1, 1};
  ptx::mma_m16n8k32_s8(d, f.a, f.b);
  StoreFragment(p, d);
}

/// The instructions that leave their sum alone.
__device__ void SumOfK16S8(const ProbeParams& p) {
  const Fragments<4> f = LoadFragments<4>(p);
  int32_t d[4];
  ptx::mma_m16n8k16_s8(d, f.a, f.b[0], 1);
  StoreFragment(p, d);
}
__device__ void SumOfK32S8(const ProbeParams& p) {
  const Fragments<8> f = LoadFragments<8>(p);
  int32_t d[4];
  ptx::mma_m16n8k32_s8(d, f.a, f.b, 1);
  StoreFragment(p, d);
}

/// Lane i takes words i of a and b: out [32] is i plus their dot product.
__device__ void DotBytes(const ProbeParams& p) {
  const int lane = static_cast<int>(threadIdx.x);
  static_cast<int32_t*>(p.out)[lane] = ptx::dp4a_s32(static_cast<const uint32_t*>(p.a)[lane],
                                                     static_cast<const uint32_t*>(p.b)[lane], lane);
}

/// Lane i permutes words 2 i and 2 i + 1 of a by selector i of b.
__device__ void PermuteBytes(const ProbeParams& p) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto* a = static_cast<const uint32_t*>(p.a);
  static_cast<uint32_t*>(p.out)[lane] =
      ptx::prmt(a[2 * lane], a[2 * lane + 1], static_cast<const uint32_t*>(p.b)[lane]);
}

/// a: kCount matrices [8, 8] of 16 bits, one behind the other; out: [kCount, 32] registers.
template <int kCount, ptx::Transposed kTransposed>
__device__ void LoadMatrix(const ProbeParams& p) {
  __shared__ alignas(16) uint16_t matrices[4 * 64];
  for (int i = static_cast<int>(threadIdx.x); i < kCount * 64; i += 32) {
    matrices[i] = static_cast<const uint16_t*>(p.a)[i];
  }
  __syncwarp();
  uint32_t r[kCount];
  ptx::ldmatrix<kCount, kTransposed>(r, matrices + threadIdx.x % (kCount * 8) * 8);
  for (int i = 0; i < kCount; ++i) static_cast<uint32_t*>(p.out)[i * 32 + threadIdx.x] = r[i];
}

/// The other way round.
template <int kCount, ptx::Transposed kTransposed>
__device__ void StoreMatrix(const ProbeParams& p) {
  __shared__ alignas(16) uint16_t matrices[4 * 64];
  uint32_t r[kCount];
  for (int i = 0; i < kCount; ++i) r[i] = static_cast<const uint32_t*>(p.a)[i * 32 + threadIdx.x];
  ptx::stmatrix<kCount, kTransposed>(matrices + threadIdx.x % (kCount * 8) * 8, r);
  __syncwarp();
  for (int i = static_cast<int>(threadIdx.x); i < kCount * 64; i += 32) {
    static_cast<uint16_t*>(p.out)[i] = matrices[i];
  }
}

/// a, out: [32] registers of a matrix and of its transpose.
__device__ void TransposeMatrix(const ProbeParams& p) {
  static_cast<uint32_t*>(p.out)[threadIdx.x] =
      ptx::movmatrix_trans(static_cast<const uint32_t*>(p.a)[threadIdx.x]);
}

}  // namespace flashinfer::probe
