// SPDX-License-Identifier: Apache-2.0
// Sine and cosine of angles counted in turns; included by *_simd.cc after simd.h.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

/// sin(2πx) for |x| <= 1/4, absolute error below 1.3e-7.
inline F32 SinOfQuarterTurns(F32 x) {
  const F32 square = x * x;
  // Coefficients of sin(2πx) / x in x², interpolated at Chebyshev nodes (2e-10). The first is split
  // so that its product with x is rounded once, at the end.
  F32 p = F32::Set(-1.439396630e+1f);
  p = Fma(p, square, F32::Set(4.200977930e+1f));
  p = Fma(p, square, F32::Set(-7.670427988e+1f));
  p = Fma(p, square, F32::Set(8.160522617e+1f));
  p = Fma(p, square, F32::Set(-4.134170212e+1f));
  p = Fma(p, square, F32::Set(1.935307180e-3f));
  return Fma(x, F32::Set(6.28125f), x * p);
}

struct SinCos {
  F32 sin;
  F32 cos;
};

/// sin(2πx) and cos(2πx) for |x| <= 1/2.
inline SinCos SinCosOfTurns(F32 x) {
  const F32 size = Abs(x);
  const F32 quarter = F32::Set(0.25f);
  const F32 zero = F32::Set(0.0f);
  // sin is symmetric about a quarter turn: fold the second quarter onto the first.
  const F32 half = SelectLess(x, zero, F32::Set(-0.5f), F32::Set(0.5f));
  const F32 folded = SelectLess(quarter, size, half - x, x);
  return {SinOfQuarterTurns(folded), SinOfQuarterTurns(quarter - size)};
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
