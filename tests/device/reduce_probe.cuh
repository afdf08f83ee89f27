// SPDX-License-Identifier: Apache-2.0
// Probes of sums over lanes and warps, and of the online softmax.
#pragma once

#include "device/probe_params.h"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// a: [32]; out: [2, 32], sum and maximum of kLanes neighbours.
template <int kLanes>
__device__ void ReduceWarp(const ProbeParams& p) {
  const float x = static_cast<const float*>(p.a)[threadIdx.x];
  static_cast<float*>(p.out)[threadIdx.x] = tile::WarpSum<kLanes>(x);
  static_cast<float*>(p.out)[32 + threadIdx.x] = tile::WarpMax<kLanes>(x);
}

/// a: [kCount, 32]; out: [max(1, kCount / kLanes), 32], what each lane keeps.
template <int kCount, int kLanes>
__device__ void Scatter(const ProbeParams& p) {
  float x[kCount];
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<const float*>(p.a)[i * 32 + threadIdx.x];
  tile::SumScattered<kCount, kLanes>(x);
  constexpr int kKept = kCount > kLanes ? kCount / kLanes : 1;
  for (int i = 0; i < kKept; ++i) static_cast<float*>(p.out)[i * 32 + threadIdx.x] = x[i];
}

/// a, out: [kThreads].
template <int kThreads>
__device__ void ReduceBlock(const ProbeParams& p) {
  __shared__ float partials[kThreads / 32];
  const float x = static_cast<const float*>(p.a)[threadIdx.x];
  static_cast<float*>(p.out)[threadIdx.x] = tile::BlockSum<kThreads>(x, partials);
}

/// Each lane runs over its `size` logits a [size, 32]; out [3, 32]: maximum, sum of exponentials
/// and LSE, all base 2.
__device__ void Softmax(const ProbeParams& p) {
  float max = tile::kNegativeInfinity;
  float sum = 0;
  for (int64_t i = 0; i < p.size; ++i) {
    const float x = static_cast<const float*>(p.a)[i * 32 + threadIdx.x];
    const float larger = fmaxf(max, x);
    sum = sum * tile::RescaleFactor(max, larger) + tile::Exp2Guarded(x, larger);
    max = larger;
  }
  auto* out = static_cast<float*>(p.out) + threadIdx.x;
  out[0] = max;
  out[32] = sum;
  out[64] = tile::LogSumExp2(max, sum);
}

}  // namespace flashinfer::probe
