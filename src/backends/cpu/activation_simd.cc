// SPDX-License-Identifier: Apache-2.0
// Gated activations of a part of a token. Bound by memory.
#include "backends/cpu/activation.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

struct Silu {
  F32 operator()(F32 x) const { return x * Sigmoid(x); }
};

template <class T, class Function>
void Columns(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  const Function function;
  const T* gate = static_cast<const T*>(p.x) + token * p.x_stride;
  const T* up = gate + p.size;
  T* out = static_cast<T*>(p.out) + token * p.out_stride;
  int64_t i = begin;
  for (; i + kWidth <= end; i += kWidth) Store(out + i, function(Load(gate + i)) * Load(up + i));
  if (i < end) {
    const int n = static_cast<int>(end - i);
    Store(out + i, function(Load(gate + i, n)) * Load(up + i, n), n);
  }
}

template <class Function>
void Part(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return Columns<float, Function>(p, token, begin, end);
  if (p.dtype == DType::kF16) return Columns<F16, Function>(p, token, begin, end);
  Columns<BF16, Function>(p, token, begin, end);
}

}  // namespace

void SiluAndMulPart(const ActivationParams& p, int64_t token, int64_t begin, int64_t end) {
  Part<Silu>(p, token, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
