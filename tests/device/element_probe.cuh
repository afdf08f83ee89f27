// SPDX-License-Identifier: Apache-2.0
// Probes of conversions, whole words of elements and approximate functions: a thread a word.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// The thread's index among all; the grid covers `size`.
__device__ __forceinline__ int64_t ThreadIndex() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// a: `size` words; out: their elements as f32.
template <DType kDType>
__device__ void Widen(const ProbeParams& p) {
  constexpr int kPerWord = 4 / tile::SizeBytes(kDType);
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  float x[kPerWord];
  tile::WidenWord<kDType>(static_cast<const uint32_t*>(p.a)[i], x);
  for (int j = 0; j < kPerWord; ++j) static_cast<float*>(p.out)[i * kPerWord + j] = x[j];
}

/// The other way round.
template <DType kDType>
__device__ void Narrow(const ProbeParams& p) {
  constexpr int kPerWord = 4 / tile::SizeBytes(kDType);
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  float x[kPerWord];
  for (int j = 0; j < kPerWord; ++j) x[j] = static_cast<const float*>(p.a)[i * kPerWord + j];
  static_cast<uint32_t*>(p.out)[i] = tile::NarrowWord<kDType>(x);
}

/// What GPUs without the instructions do, on any: a byte or half of out for each f32 of `a`.
__device__ void NarrowInSoftware(const ProbeParams& p) {
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  const float x = static_cast<const float*>(p.a)[i];
  static_cast<uint32_t*>(p.out)[i] = ptx::RoundToBf16Bits(x) |
                                     ptx::RoundToFp8Bits<3, -6, 0x7eu, 0x7fu>(x) << 16 |
                                     ptx::RoundToFp8Bits<2, -14, 0x7bu, 0x7fu>(x) << 24;
}
__device__ void WidenE4m3InSoftware(const ProbeParams& p) {
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  static_cast<float*>(p.out)[i] = ptx::E4m3BitsToF32(static_cast<const uint8_t*>(p.a)[i]);
}

/// a: eight f32 for each of `size` words; out: their e2m1.
template <bool kInSoftware>
__device__ void NarrowE2m1(const ProbeParams& p) {
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  float x[8];
  for (int j = 0; j < 8; ++j) x[j] = static_cast<const float*>(p.a)[i * 8 + j];
  static_cast<uint32_t*>(p.out)[i] =
      kInSoftware ? ptx::RoundToE2m1Bits(x, 1.0f) : ptx::cvt_rn_satfinite_e2m1x8_f32(x, 1.0f);
}
__device__ void WidenE2m1(const ProbeParams& p) {
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  static_cast<float*>(p.out)[i] = ptx::E2m1BitsToF32(static_cast<const uint8_t*>(p.a)[i]);
}

enum class Function : int { kEx2, kLg2, kRcp, kRsqrt, kTanh, kSoftCap30 };

template <Function kFunction>
__device__ void Apply(const ProbeParams& p) {
  const int64_t i = ThreadIndex();
  if (i >= p.size) return;
  const float x = static_cast<const float*>(p.a)[i];
  float y;
  if constexpr (kFunction == Function::kEx2) y = ptx::ex2_approx(x);
  if constexpr (kFunction == Function::kLg2) y = ptx::lg2_approx(x);
  if constexpr (kFunction == Function::kRcp) y = ptx::rcp_approx(x);
  if constexpr (kFunction == Function::kRsqrt) y = ptx::RsqrtApprox(x);
  if constexpr (kFunction == Function::kTanh) y = ptx::tanh_approx(x);
  if constexpr (kFunction == Function::kSoftCap30) y = tile::SoftCap(x, 30.0f);
  static_cast<float*>(p.out)[i] = y;
}

}  // namespace flashinfer::probe
