// SPDX-License-Identifier: Apache-2.0
// Rotary position encoding of queries and of tiles of keys inside attention.
#pragma once

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/sin_cos.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Cosine and sine of each of `num_pairs` angles at a position; writes whole vectors.
inline void FillAngles(const double* turns_per_position, int64_t position, int num_pairs,
                       float* cos, float* sin) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to whole numbers
  alignas(64) float turns[F32::kWidth];
  for (int i = 0; i < num_pairs; i += F32::kWidth) {
    for (int lane = 0; lane < F32::kWidth; ++lane) {
      const double x =
          i + lane < num_pairs ? static_cast<double>(position) * turns_per_position[i + lane] : 0;
      turns[lane] = static_cast<float>(x - ((x + kMagic) - kMagic));
    }
    const SinCos of = SinCosOfTurns(Load(turns));
    Store(sin + i, of.sin);
    Store(cos + i, of.cos);
  }
}

/// out = x with its halves rotated; `out` may be x.
template <class T>
inline void Rotate(const T* x, int half, const float* cos, const float* sin, float* out) {
  for (int i = 0; i < half; i += F32::kWidth) {
    const int n = half - i < F32::kWidth ? half - i : F32::kWidth;
    const F32 a = Load(x + i, n);
    const F32 b = Load(x + half + i, n);
    const F32 c = Load(cos + i, n);
    const F32 s = Load(sin + i, n);
    Store(out + i, a * c - b * s, n);
    Store(out + half + i, Fma(b, c, a * s), n);
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
