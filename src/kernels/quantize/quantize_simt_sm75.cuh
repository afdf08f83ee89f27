// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back. A span of a row belongs to a group of threads, which looks for
// its largest value, if it has a scale of its own, and then rounds it; what it read the first time
// lies in the cache. Bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/quantize/quantize_spec.h"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::quantize_simt {

template <QuantizeSpec kSpec>
struct Traits {
  static constexpr QuantizeSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kThreads = kSpec.span_threads;
  static constexpr bool kWidens = kSpec.step == kQuantizeWiden;
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kThreads >= 1 && kThreads <= 256 && (kThreads & (kThreads - 1)) == 0,
                "span_threads must be a power of two up to 256");
  static_assert(kSpec.step >= kQuantizeNarrow && kSpec.step <= kQuantizeScale,
                "step must be 0 to 5");
  static_assert(kSpec.dtype_q == DType::kE4M3 || kSpec.dtype_q == DType::kE5M2 ||
                    kSpec.dtype_q == DType::kI8,
                "dtype_q must be e4m3, e5m2 or i8");
  /// The largest value of dtype_q.
  static constexpr float kLargest = kSpec.dtype_q == DType::kE4M3   ? 448.0f
                                    : kSpec.dtype_q == DType::kE5M2 ? 57344.0f
                                                                    : 127.0f;
  static constexpr DType kFrom = kWidens ? kSpec.dtype_q : kSpec.dtype;
  static constexpr DType kTo = kWidens ? kSpec.dtype : kSpec.dtype_q;
  using From = tile::Elements<kFrom, kVec>;
  using To = tile::Elements<kTo, kVec>;
};

/// A span and its elements; none behind the last one.
struct Span {
  int64_t row;
  int64_t index;  ///< within the row
  int64_t begin;  ///< column
  int64_t end;
};

template <class T>
__device__ __forceinline__ Span SpanOf(const QuantizeKernelParams& p) {
  const int64_t at =
      int64_t{blockIdx.x} * QuantizeBlockSpans(T::kS) + static_cast<int>(threadIdx.x) / T::kThreads;
  if (at >= p.num_spans) return {0, 0, 0, 0};
  Span span;
  span.row = at / p.spans_per_row;
  span.index = at - span.row * p.spans_per_row;
  span.begin = span.index * p.span_size;
  span.end = min(span.begin + p.span_size, p.hidden_size);
  return span;
}

/// Visits the columns at which this thread's accesses of a span begin.
template <class T, class Body>
__device__ __forceinline__ void ForEachAccess(const Span& span, const Body& body) {
  const int thread = static_cast<int>(threadIdx.x) % T::kThreads;
#pragma unroll 4
  for (int64_t c = span.begin + thread * T::kVec; c < span.end; c += T::kThreads * T::kVec) {
    body(c);
  }
}

__device__ __forceinline__ float FiniteSize(float x) {
  const float size = fabsf(x);
  return size < __uint_as_float(0x7f800000u) ? size : 0.0f;  // NaN is not less
}

/// The largest finite |x| of a span, on each of its threads. All threads of the block come here.
template <class T>
__device__ __forceinline__ float Amax(const QuantizeKernelParams& p, const Span& span) {
  const char* from = tile::At<T::kFrom>(p.from, span.row * p.from_stride);
  float amax = 0;
  ForEachAccess<T>(span, [&](int64_t column) {
    typename T::From access;
    float x[T::kVec];
    access.Load(tile::At<T::kFrom>(from, column));
    access.Widen(x);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) amax = fmaxf(amax, FiniteSize(x[j]));
  });
  constexpr int kLanes = T::kThreads < 32 ? T::kThreads : 32;
  amax = tile::WarpMax<kLanes>(amax);
  if constexpr (T::kThreads > 32) {
    extern __shared__ __align__(16) char shared_memory[];
    auto* maxima = reinterpret_cast<float*>(shared_memory);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0) maxima[warp] = amax;
    __syncthreads();
    constexpr int kWarps = T::kThreads / 32;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) amax = fmaxf(amax, maxima[warp / kWarps * kWarps + w]);
  }
  return amax;
}

template <class T>
__device__ __forceinline__ float ScaleOf(const QuantizeKernelParams& p, float amax) {
  const float scale = fmaxf(amax / T::kLargest, p.min_scale);
  if (p.power_of_two == 0) return scale;
  constexpr uint32_t kMantissa = 0x7fffff;
  return __uint_as_float((__float_as_uint(scale) + kMantissa) & ~kMantissa);
}

/// Each element of a span times `factor`.
template <class T>
__device__ __forceinline__ void Convert(const QuantizeKernelParams& p, const Span& span,
                                        float factor) {
  const char* from = tile::At<T::kFrom>(p.from, span.row * p.from_stride);
  char* to = tile::At<T::kTo>(p.to, span.row * p.to_stride);
  ForEachAccess<T>(span, [&](int64_t column) {
    typename T::From access;
    typename T::To result;
    float x[T::kVec];
    access.Load(tile::At<T::kFrom>(from, column));
    access.Widen(x);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[j] *= factor;
    result.Narrow(x);
    result.Store(tile::At<T::kTo>(to, column));
  });
}

template <QuantizeSpec kSpec>
__device__ __forceinline__ void Run(const QuantizeKernelParams& p) {
  using T = Traits<kSpec>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if constexpr (kSpec.step == kQuantizeClear) {
    if (threadIdx.x == 0) p.scales[0] = 0;
  } else if constexpr (kSpec.step == kQuantizeScale) {
    if (threadIdx.x == 0) p.scales[0] = ScaleOf<T>(p, p.scales[0]);
  } else {
    const Span span = SpanOf<T>(p);
    float* scale_at = p.scales + span.row * p.scales_stride_row + span.index * p.scales_stride_span;
    const bool is_first = threadIdx.x % T::kThreads == 0 && span.begin < span.end;
    if constexpr (kSpec.step == kQuantizeAmax) {
      const float amax = Amax<T>(p, span);
      // Floats of one sign have the order of their bits.
      if (is_first) atomicMax(reinterpret_cast<unsigned*>(scale_at), __float_as_uint(amax));
    } else if constexpr (kSpec.step == kQuantizeDynamic) {
      const float scale = ScaleOf<T>(p, Amax<T>(p, span));
      if (is_first) *scale_at = scale;
      Convert<T>(p, span, 1.0f / scale);
    } else if (span.begin < span.end) {
      Convert<T>(p, span, T::kWidens ? *scale_at : 1.0f / *scale_at);
    }
  }
}

}  // namespace flashinfer::kernels::quantize_simt
