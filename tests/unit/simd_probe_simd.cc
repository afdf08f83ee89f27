// SPDX-License-Identifier: Apache-2.0
// The vector layer of one instruction set, over arrays with partial vectors at their end.
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/row_vectors.h"
#include "backends/cpu/simd/sin_cos.h"
#include "unit/simd_probe.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class From, class To, class Function>
inline void Map(const From* x, To* out, int64_t count, Function function) {
  for (int64_t i = 0; i < count; i += F32::kWidth) {
    const int n = count - i < F32::kWidth ? static_cast<int>(count - i) : F32::kWidth;
    Store(out + i, function(Load(x + i, n)), n);
  }
}

template <class From, class To>
void Copy(const From* x, To* out, int64_t count) {
  Map(x, out, count, [](F32 v) { return v; });
}

template <class To>
void CopyLines(const float* x, To* out, int64_t count) {
  WriteRow(out, true, count, [&](int64_t i, auto lanes) { return lanes.LoadFrom(x + i); });
  FinishStreams();
}

}  // namespace

const SimdProbe& Probe() {
  static constexpr SimdProbe kProbe{
      F32::kWidth,
      [](const float* x, float* out, int64_t n) { Map(x, out, n, [](F32 v) { return Exp2(v); }); },
      [](const float* x, float* out, int64_t n) { Map(x, out, n, [](F32 v) { return Exp(v); }); },
      [](const float* x, float* out, int64_t n) { Map(x, out, n, [](F32 v) { return Tanh(v); }); },
      [](const float* x, float* out, int64_t n) {
        Map(x, out, n, [](F32 v) { return Sigmoid(v); });
      },
      [](const float* x, float* sines, float* cosines, int64_t n) {
        Map(x, sines, n, [](F32 v) { return SinCosOfTurns(v).sin; });
        Map(x, cosines, n, [](F32 v) { return SinCosOfTurns(v).cos; });
      },
      Copy<F16, float>,
      Copy<BF16, float>,
      Copy<float, F16>,
      Copy<float, BF16>,
      Copy<E4M3, float>,
      Copy<E5M2, float>,
      Copy<float, E4M3>,
      Copy<float, E5M2>,
      CopyLines<F16>,
      CopyLines<BF16>,
      CopyLines<E4M3>,
      CopyLines<E5M2>};
  return kProbe;
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
