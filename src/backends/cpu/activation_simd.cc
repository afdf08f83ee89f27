// SPDX-License-Identifier: Apache-2.0
// Gated activations of a part of a token. Bound by memory.
#include "backends/cpu/activation.h"
#include "backends/cpu/simd/row_vectors.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

/// 1 / x for x in 1 … 2^126.
inline F32 Reciprocal(F32 x) {
#if defined(__AVX512F__)
  // 14 bits, and one step of Newton's: half the time of a division (Zen 4, 2026-11).
  const F32 guess{_mm512_rcp14_ps(x.v)};
  return guess * (F32::Set(2.0f) - x * guess);
#else
  return F32::Set(1.0f) / x;
#endif
}

/// 2^x for x in -126 … 126, and there for others and NaN. Relative error 2e-7. A gate multiplies by
/// its input, which brings NaN back and makes the edges of Exp2() needless.
inline F32 Exp2OfGate(F32 x) {
  const F32 clamped = Max(Min(x, F32::Set(126.0f)), F32::Set(-126.0f));
  const F32 whole = Round(clamped);
  const F32 t = clamped - whole;
  // Coefficients: minimax fit of 2^t on [-0.5, 0.5] (9e-8).
  F32 p = F32::Set(1.326472707e-3f);
  p = Fma(p, t, F32::Set(9.671512649e-3f));
  p = Fma(p, t, F32::Set(5.550733744e-2f));
  p = Fma(p, t, F32::Set(2.402224209e-1f));
  p = Fma(p, t, F32::Set(6.931469776e-1f));
  p = Fma(p, t, F32::Set(1.0f));
  return ScaleByPowerOfTwo(p, whole);
}

/// 1 / (1 + 2^-x).
inline F32 SigmoidInBase2(F32 x) {
  return Reciprocal(F32::Set(1.0f) + Exp2OfGate(F32::Set(0.0f) - x));
}

struct Silu {
  F32 operator()(F32 x) const { return x * SigmoidInBase2(x * F32::Set(kLog2E)); }
};

/// Φ(x) by erfc, so that the tail below 0 keeps its relative accuracy (3e-7 near 0).
struct Gelu {
  F32 operator()(F32 x) const {
    // erfc(|x| / √2) / 2 = t · p(t) · e^(-x² / 2) with t = 1 / (1 + 0.3 |x| / √2): minimax fit of p
    // for |x| up to 13 (2e-8), where the exponential has vanished.
    constexpr float kSlope = 0.212132034f;
    const F32 one = F32::Set(1.0f);
    const F32 size = Min(F32::Set(1e30f), Abs(x));
    const F32 t = Reciprocal(Fma(size, F32::Set(kSlope), one));
    F32 p = F32::Set(-6.47170410694e-2f);
    p = Fma(p, t, F32::Set(2.42548228829e-1f));
    p = Fma(p, t, F32::Set(-2.55613226653e-1f));
    p = Fma(p, t, F32::Set(2.73197533201e-1f));
    p = Fma(p, t, F32::Set(-4.68156260267e-2f));
    p = Fma(p, t, F32::Set(1.07218139660e-1f));
    p = Fma(p, t, F32::Set(7.42412147719e-2f));
    p = Fma(p, t, F32::Set(8.53459675480e-2f));
    p = Fma(p, t, F32::Set(8.45948073909e-2f));
    const F32 tail = t * p * Exp2OfGate(x * x * F32::Set(-0.5f * kLog2E));
    return x * SelectLess(x, F32::Set(0.0f), tail, one - tail);
  }
};

struct GeluTanh {
  F32 operator()(F32 x) const {
    // (1 + tanh(u)) / 2 = sigmoid(2u), with 2u = 2√(2/π) · (x + 0.044715 x³).
    const F32 slope =
        Fma(x * x, F32::Set(0.0713548162726f * kLog2E), F32::Set(1.59576912161f * kLog2E));
    return x * SigmoidInBase2(x * slope);
  }
};

template <class Function, class T, class O>
void Columns(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  const Function function;
  const T* gate = static_cast<const T*>(p.x) + token * p.x_stride;
  const T* up = gate + p.size;
  O* out = static_cast<O*>(p.out) + token * p.out_stride;
  const F32 factor =
      F32::Set(1.0f / (p.out_scale_data == nullptr ? p.out_scale : *p.out_scale_data));
  const bool streams = StreamsOutput(p.num_tokens * p.size * int64_t{sizeof(O)});
  ForEachVectorTo(out + begin, streams, end - begin, [&](int64_t i, auto lanes) {
    const int64_t at = begin + i;
    const F32 product = function(lanes.LoadFrom(gate + at)) * lanes.LoadFrom(up + at);
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
