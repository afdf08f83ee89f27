// SPDX-License-Identifier: Apache-2.0
// Gated activations of a part of a token. Bound by memory.
#include "backends/cpu/activation.h"
#include "backends/cpu/simd/row_vectors.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

/// By Horner's rule, the highest power first.
template <int kCount>
inline F32 Polynomial(const float (&coefficients)[kCount], F32 t) {
  F32 p = F32::Set(coefficients[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kCount; ++i) p = Fma(p, t, F32::Set(coefficients[i]));
  return p;
}

/// 1 / x for x in 1 … 2^126, to 14 bits or better.
inline F32 GuessReciprocal(F32 x) {
#if defined(__AVX512F__)
  return {_mm512_rcp14_ps(x.v)};
#else
  return F32::Set(1.0f) / x;
#endif
}

// Polynomials are minimax fits of the relative error: of 2^t for |t| <= 1/2, and of Gelu's p for
// |x| up to 13, where its exponential has vanished.

/// Math to the last bits of a float (3e-7).
struct FineMath {
  static constexpr float kExp2[] = {1.326472707e-3f, 9.671512649e-3f, 5.550733744e-2f,
                                    2.402224209e-1f, 6.931469776e-1f, 1.0f};  // 9e-8
  static constexpr float kErfc[] = {
      -6.47170410694e-2f, 2.42548228829e-1f,  -2.55613226653e-1f,
      2.73197533201e-1f,  -4.68156260267e-2f, 1.07218139660e-1f,
      7.42412147719e-2f,  8.53459675480e-2f,  8.45948073909e-2f};  // 2e-8
  static F32 Reciprocal(F32 x) {
    const F32 guess = GuessReciprocal(x);
#if defined(__AVX512F__)
    // One step of Newton's: half the time of a division (Zen 4, 2026-11).
    return guess * (F32::Set(2.0f) - x * guess);
#else
    return guess;
#endif
  }
};

/// Math for outputs of 8 bits of precision or fewer (2e-4).
struct CoarseMath {
  static constexpr float kExp2[] = {5.517163067e-2f, 2.426111672e-1f, 6.932609967e-1f,
                                    9.999280711e-1f};  // 8e-5
  static constexpr float kErfc[] = {3.899233837e-1f,  -5.113691867e-1f, 5.173289018e-1f,
                                    -9.891105812e-2f, 1.213678906e-1f,  8.164439870e-2f};  // 3e-5
  static F32 Reciprocal(F32 x) { return GuessReciprocal(x); }
};

template <class O>
struct MathOf {
  using Type = FineMath;
};
template <>
struct MathOf<BF16> {
  using Type = CoarseMath;
};
template <>
struct MathOf<E4M3> {
  using Type = CoarseMath;
};
template <>
struct MathOf<E5M2> {
  using Type = CoarseMath;
};

/// 2^x for x in -126 … 126, and there for others and NaN. A gate multiplies by its input, which
/// brings NaN back and makes the edges of Exp2() needless.
template <class Math>
inline F32 Exp2OfGate(F32 x) {
  const F32 clamped = Max(Min(x, F32::Set(126.0f)), F32::Set(-126.0f));
  const F32 whole = Round(clamped);
  return ScaleByPowerOfTwo(Polynomial(Math::kExp2, clamped - whole), whole);
}

/// 1 / (1 + 2^-x).
template <class Math>
inline F32 SigmoidInBase2(F32 x) {
  return Math::Reciprocal(F32::Set(1.0f) + Exp2OfGate<Math>(F32::Set(0.0f) - x));
}

struct Silu {
  template <class Math>
  static F32 Of(F32 x) {
    return x * SigmoidInBase2<Math>(x * F32::Set(kLog2E));
  }
};

/// Φ(x) by erfc, so that the tail below 0 keeps its relative accuracy.
struct Gelu {
  template <class Math>
  static F32 Of(F32 x) {
    // erfc(|x| / √2) / 2 = t · p(t) · e^(-x² / 2) with t = 1 / (1 + 0.3 |x| / √2).
    constexpr float kSlope = 0.212132034f;
    const F32 one = F32::Set(1.0f);
    const F32 size = Min(F32::Set(1e30f), Abs(x));
    const F32 t = Math::Reciprocal(Fma(size, F32::Set(kSlope), one));
    const F32 falling = Exp2OfGate<Math>(x * x * F32::Set(-0.5f * kLog2E));
    const F32 tail = t * Polynomial(Math::kErfc, t) * falling;
    return x * SelectLess(x, F32::Set(0.0f), tail, one - tail);
  }
};

struct GeluTanh {
  template <class Math>
  static F32 Of(F32 x) {
    // (1 + tanh(u)) / 2 = sigmoid(2u), with 2u = 2√(2/π) · (x + 0.044715 x³).
    const F32 slope =
        Fma(x * x, F32::Set(0.0713548162726f * kLog2E), F32::Set(1.59576912161f * kLog2E));
    return x * SigmoidInBase2<Math>(x * slope);
  }
};

template <class Function, class T, class O>
void Columns(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  using Math = typename MathOf<O>::Type;
  const T* gate = static_cast<const T*>(p.x) + token * p.x_stride;
  const T* up = gate + p.size;
  O* out = static_cast<O*>(p.out) + token * p.out_stride;
  const F32 factor =
      F32::Set(1.0f / (p.out_scale_data == nullptr ? p.out_scale : *p.out_scale_data));
  const bool streams = StreamsOutput(p.num_tokens * p.size * int64_t{sizeof(O)});
  ForEachVectorTo(out + begin, streams, end - begin, [&](int64_t i, auto lanes) {
    const int64_t at = begin + i;
    const F32 product =
        Function::template Of<Math>(lanes.LoadFrom(gate + at)) * lanes.LoadFrom(up + at);
    lanes.StreamTo(out + at, sizeof(O) == 1 ? product * factor : product);
  });
  if (streams) FinishStreams();
}

template <class Function, class T>
void PartOf(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  if (p.dtype_out == DType::kE4M3) return Columns<Function, T, E4M3>(p, token, begin, end);
  if (p.dtype_out == DType::kE5M2) return Columns<Function, T, E5M2>(p, token, begin, end);
  Columns<Function, T, T>(p, token, begin, end);
}

template <class Function>
void Part(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return PartOf<Function, float>(p, token, begin, end);
  if (p.dtype == DType::kF16) return PartOf<Function, F16>(p, token, begin, end);
  PartOf<Function, BF16>(p, token, begin, end);
}

}  // namespace

void ActivationPart(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  if (p.kind == ActivationKind::kSilu) return Part<Silu>(p, token, begin, end);
  if (p.kind == ActivationKind::kGelu) return Part<Gelu>(p, token, begin, end);
  Part<GeluTanh>(p, token, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
