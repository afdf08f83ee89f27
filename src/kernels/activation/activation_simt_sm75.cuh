// SPDX-License-Identifier: Apache-2.0
// Gated activations: out = f(gate) · value, element by element. Bound by bytes: all loads of a
// thread are on their way before the first is used.
#pragma once

#include "kernels/activation/activation_spec.h"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::activation_simt {

template <ActivationSpec kSpec>
struct Traits {
  static constexpr ActivationSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kSpec.num_vectors >= 1 && kSpec.num_vectors <= 8, "num_vectors must be 1 to 8");
  using In = tile::Elements<kSpec.dtype, kVec>;
  using Out = tile::Elements<kSpec.dtype_out, kVec>;
};

/// 1 / (1 + e^-x).
__device__ __forceinline__ float Sigmoid(float x) {
  return ptx::rcp_approx(1.0f + ptx::ex2_approx(-1.442695041f * x));
}

template <int32_t kGate>
__device__ __forceinline__ float Gate(float x) {
  if constexpr (kGate == kGateSilu) {
    return x * Sigmoid(x);
  } else if constexpr (kGate == kGateGelu) {
    return 0.5f * x * (1.0f + erff(0.7071067812f * x));
  } else {
    // (1 + tanh u) / 2 is the sigmoid of 2u.
    return x * Sigmoid(1.595769122f * (x + 0.044715f * x * x * x));
  }
}

template <ActivationSpec kSpec>
__device__ __forceinline__ void Run(const ActivationParams& p) {
  using T = Traits<kSpec>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  constexpr int kN = T::kS.num_vectors;
  const int64_t token = blockIdx.x;
  const char* gates = tile::At<T::kS.dtype>(p.x, token * p.x_stride);
  const char* values = tile::At<T::kS.dtype>(gates, p.size);
  char* out = tile::At<T::kS.dtype_out>(p.out, token * p.out_stride);
  const int64_t first = (int64_t{blockIdx.y} * kN * T::kNumThreads + threadIdx.x) * T::kVec;
  constexpr int kStep = T::kNumThreads * T::kVec;
  typename T::In gate[kN];
  typename T::In value[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t column = first + i * kStep;
    if (column >= p.size) break;
    gate[i].Load(tile::At<T::kS.dtype>(gates, column));
    value[i].Load(tile::At<T::kS.dtype>(values, column));
  }
  float factor = 1.0f;
  if constexpr (tile::SizeBytes(T::kS.dtype_out) == 1) {
    factor = 1.0f / ((p.scale == nullptr ? 1.0f : *p.scale) * p.host_scale);
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t column = first + i * kStep;
    if (column >= p.size) break;
    float a[T::kVec];
    float b[T::kVec];
    gate[i].Widen(a);
    value[i].Widen(b);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) {
      a[j] = Gate<T::kS.gate>(a[j]) * b[j];
      if constexpr (tile::SizeBytes(T::kS.dtype_out) == 1) a[j] *= factor;
    }
    typename T::Out result;
    result.Narrow(a);
    result.Store(tile::At<T::kS.dtype_out>(out, column));
  }
}

}  // namespace flashinfer::kernels::activation_simt
