// SPDX-License-Identifier: Apache-2.0
// Vectors of floats for the kernels that are compiled once per instruction set.
//
// Included only by *_simd.cc files, which CMake compiles once per instruction set with
// FLASHINFER_ISA naming the namespace. Such files must instantiate nothing of the standard library:
// the linker keeps one copy of an inline function, and it might be the AVX-512 one.
#pragma once

#include <bit>
#include <cstdint>

#include "core/convert.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(FLASHINFER_ISA)
#error "FLASHINFER_ISA names the instruction set's namespace; only *_simd.cc files include this"
#endif

#if defined(__AVX512F__)
#include "backends/cpu/simd/simd_avx512.h"
#elif defined(__AVX2__)
#include "backends/cpu/simd/simd_avx2.h"
#else
#include "backends/cpu/simd/simd_scalar.h"
#endif
#include "backends/cpu/simd/simd_fp8.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Vectors of floats that make a cache line of elements of type T.
template <class T>
inline constexpr int kLineVectors = 64 / (F32::kWidth * static_cast<int>(sizeof(T)));

/// `F32::kWidth` elements of any storage type as floats.
template <class T>
inline F32 Load(const T* p) {
  return LoadAs(p);
}

/// The first `n` elements, 0 <= n <= kWidth; the other lanes are 0 and their memory is not read.
template <class T>
inline F32 Load(const T* p, int n) {
  return n == F32::kWidth ? LoadAs(p) : LoadPartial(p, n);
}

template <class T>
inline void Store(T* p, F32 v) {
  StoreAs(p, v);
}

/// Writes the first `n` lanes only.
template <class T>
inline void Store(T* p, F32 v, int n) {
  if (n == F32::kWidth) {
    StoreAs(p, v);
  } else {
    StorePartial(p, v, n);
  }
}

/// Store() of vectors that follow each other, in one piece where that is faster.
template <class T>
inline void StoreLine(T* p, const F32 (&v)[kLineVectors<T>]) {
#if defined(__AVX512F__)
  _mm512_storeu_si512(p, LineOf(v, T{}));
#else
  for (int i = 0; i < kLineVectors<T>; ++i) StoreAs(p + i * F32::kWidth, v[i]);
#endif
}

/// 2^t for |t| <= 1/2, relative error below 2e-7.
inline F32 Exp2OfFraction(F32 t) {
  // Coefficients: minimax fit of 2^t on [-0.5, 0.5] (2e-9; 8e-8 in float).
  F32 p = F32::Set(1.535331248e-4f);
  p = Fma(p, t, F32::Set(1.339886105e-3f));
  p = Fma(p, t, F32::Set(9.618437849e-3f));
  p = Fma(p, t, F32::Set(5.550332367e-2f));
  p = Fma(p, t, F32::Set(2.402264774e-1f));
  p = Fma(p, t, F32::Set(6.931471825e-1f));
  return Fma(p, t, F32::Set(1.0f));
}

/// 2^x, relative error below 2e-7; 0 for -inf and below -126 (results never are subnormal),
/// infinity from 128 on, NaN for NaN.
inline F32 Exp2(F32 x) {
  const F32 clamped = Max(Min(x, F32::Set(128.0f)), F32::Set(-127.0f));
  const F32 whole = Round(clamped);
  const F32 result = ScaleByPowerOfTwo(Exp2OfFraction(clamped - whole), whole);
  return SelectNan(x, SelectLess(x, F32::Set(-126.0f), F32::Set(0.0f), result));
}

inline constexpr float kLog2E = 1.44269504088896340736f;

inline F32 Exp(F32 x) { return Exp2(x * F32::Set(kLog2E)); }

/// 1 / (1 + e^-x).
inline F32 Sigmoid(F32 x) { return F32::Set(1.0f) / (F32::Set(1.0f) + Exp(F32::Set(0.0f) - x)); }

/// tanh by 1 - 2 / (1 + e^2x); absolute error below 2e-7.
inline F32 Tanh(F32 x) { return F32::Set(1.0f) - F32::Set(2.0f) / (F32::Set(1.0f) + Exp(x + x)); }

}  // namespace flashinfer::cpu::FLASHINFER_ISA
