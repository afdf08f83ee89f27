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

/// 1 / x for x in 1 … 2^126, to 14 bits or better; 0 for infinity.
inline F32 GuessReciprocal(F32 x) {
#if defined(__AVX512F__)
  return {_mm512_rcp14_ps(x.v)};
#else
  return F32::Set(1.0f) / x;
#endif
}

// Polynomials are minimax fits of the relative error: of 2^t on [0, 1), and of Gelu's p for |x| up
// to 13, where its exponential has vanished.

/// Math to the last bits of a float (3e-7).
struct FineMath {
  static constexpr float kExp2[] = {1.877576673e-3f, 8.989340095e-3f, 5.582631805e-2f,
                                    2.401536170e-1f, 6.931530732e-1f, 9.999999251e-1f};  // 8e-8
  static constexpr float kErfc[] = {
      -6.47170410694e-2f, 2.42548228829e-1f,  -2.55613226653e-1f,
      2.73197533201e-1f,  -4.68156260267e-2f, 1.07218139660e-1f,
      7.42412147719e-2f,  8.53459675480e-2f,  8.45948073909e-2f};  // 2e-8
  /// `x` where it is below 126: Reciprocal() takes 2^x and x, but not infinity.
  static F32 Limited(F32 x) { return Min(x, F32::Set(126.0f)); }
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
  static constexpr float kExp2[] = {7.802452266e-2f, 2.260671554e-1f, 6.958335405e-1f,
                                    9.999252186e-1f};  // 8e-5
  static constexpr float kErfc[] = {3.899233837e-1f,  -5.113691867e-1f, 5.173289018e-1f,
                                    -9.891105812e-2f, 1.213678906e-1f,  8.164439870e-2f};  // 3e-5
  static F32 Limited(F32 x) {
#if defined(__AVX512F__)
    return x;
#else
    return FineMath::Limited(x);
#endif
  }
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

/// 2^x for x that Math::Limited() gives, and there for NaN: a gate multiplies by its input, which
/// brings NaN back and makes the edges of Exp2() needless.
template <class Math>
inline F32 Exp2OfGate(F32 x) {
#if defined(__AVX512F__)
  // The whole part stays in x; that of -inf makes 0.
  return ScaleByPowerOfTwo(Polynomial(Math::kExp2, FractionAboveFloor(x)), x);
#else
  const F32 clamped = Max(x, F32::Set(-126.0f));
  const F32 near = Round(clamped);
  const F32 whole = SelectLess(clamped, near, near - F32::Set(1.0f), near);
  return ScaleByPowerOfTwo(Polynomial(Math::kExp2, clamped - whole), whole);
#endif
}

/// 1 / (1 + 2^-x).
template <class Math>
inline F32 SigmoidInBase2(F32 x) {
  const F32 exponent = Math::Limited(F32::Set(0.0f) - x);
  return Math::Reciprocal(F32::Set(1.0f) + Exp2OfGate<Math>(exponent));
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
    const F32 size = Math::Limited(Abs(x));
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

/// Narrow inputs are asked for so long before their turn: the arithmetic of fewer bytes hides less
/// of their way. Zen 4, 2026-11: 5 % less time in bf16; float32 gains nothing.
constexpr int64_t kElementsAhead = 1024;

template <class Function, class T, class O>
void Columns(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  using Math = typename MathOf<O>::Type;
  const T* gate = static_cast<const T*>(p.x) + token * p.x_stride;
  const T* up = gate + p.size;
  O* out = static_cast<O*>(p.out) + token * p.out_stride;
  const F32 factor =
      F32::Set(1.0f / (p.out_scale_data == nullptr ? p.out_scale : *p.out_scale_data));
  const bool streams = StreamsOutput(p.num_tokens * p.size * int64_t{sizeof(O)});
  gate += begin;
  up += begin;
  const auto value = [&](int64_t i, auto lanes) {
    const F32 product =
        Function::template Of<Math>(lanes.LoadFrom(gate + i)) * lanes.LoadFrom(up + i);
    return sizeof(O) == 1 ? product * factor : product;
  };
  const auto fetch = [&]<int64_t kCount>(int64_t i) {
    if constexpr (sizeof(T) < 4) {
      Fetch<kCount>(gate + i + kElementsAhead);
      Fetch<kCount>(up + i + kElementsAhead);
    }
  };
  WriteRow(out + begin, streams, end - begin, value, fetch);
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
