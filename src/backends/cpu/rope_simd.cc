// SPDX-License-Identifier: Apache-2.0
// RoPE of tokens: sines and cosines once per token, then every head by them. Bound by memory.
#include "backends/cpu/rope.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/sin_cos.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

/// Of one token. NeoX: pair i at i. Interleaved: pair i at 2i and 2i + 1, the sine negated at 2i,
/// so that out = x · cos + swapped(x) · sin.
struct Angles {
  float cos[kMaxRotaryDim];
  float sin[kMaxRotaryDim];
};

void FillAngles(const RopeParams& p, const RopeFrequencies& frequencies, int64_t token,
                Angles& angles) {
  const int64_t at = token * p.pos_ids_stride;
  const double position = p.dtype_pos_ids == DType::kI64
                              ? static_cast<double>(static_cast<const int64_t*>(p.pos_ids)[at])
                              : static_cast<double>(static_cast<const int32_t*>(p.pos_ids)[at]);
  const int64_t num_pairs = p.rotary_dim / 2;
  alignas(64) float turns[kMaxRotaryDim / 2];
  for (int64_t i = 0; i < num_pairs; ++i) {
    const double whole_and_part = position * frequencies.turns_per_position[i];
    constexpr double kMagic = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to whole numbers
    turns[i] = static_cast<float>(whole_and_part - ((whole_and_part + kMagic) - kMagic));
  }
  for (int64_t i = 0; i < num_pairs; i += kWidth) {
    const int n = num_pairs - i < kWidth ? static_cast<int>(num_pairs - i) : kWidth;
    const SinCos of = SinCosOfTurns(Load(turns + i, n));
    Store(angles.sin + i, of.sin, n);
    Store(angles.cos + i, of.cos, n);
  }
  if (!p.interleaved) return;
  for (int64_t i = num_pairs - 1; i >= 0; --i) {
    const float sine = angles.sin[i];
    const float cosine = angles.cos[i];
    angles.sin[2 * i] = -sine;
    angles.sin[2 * i + 1] = sine;
    angles.cos[2 * i] = cosine;
    angles.cos[2 * i + 1] = cosine;
  }
}

template <class T>
void RotateNeox(const T* x, T* out, const Angles& angles, int64_t half) {
  for (int64_t i = 0; i < half; i += kWidth) {
    const int n = half - i < kWidth ? static_cast<int>(half - i) : kWidth;
    const F32 a = Load(x + i, n);
    const F32 b = Load(x + half + i, n);
    const F32 cos = Load(angles.cos + i, n);
    const F32 sin = Load(angles.sin + i, n);
    Store(out + i, a * cos - b * sin, n);
    Store(out + half + i, Fma(b, cos, a * sin), n);
  }
}

template <class T>
void RotateInterleaved(const T* x, T* out, const Angles& angles, int64_t rotary_dim) {
  for (int64_t i = 0; i < rotary_dim; i += kWidth) {
    const int n = rotary_dim - i < kWidth ? static_cast<int>(rotary_dim - i) : kWidth;
    const F32 a = Load(x + i, n);
    Store(out + i, Fma(a, Load(angles.cos + i, n), SwapPairs(a) * Load(angles.sin + i, n)), n);
  }
}

template <class T>
void Heads(const RopeParams& p, const RopeHeads& heads, int64_t token, const Angles& angles) {
  const T* x = static_cast<const T*>(heads.in) + token * heads.in_stride_token;
  T* out = static_cast<T*>(heads.out) + token * heads.out_stride_token;
  for (int64_t head = 0; head < heads.num_heads; ++head) {
    if (p.interleaved) {
      RotateInterleaved(x, out, angles, p.rotary_dim);
    } else {
      RotateNeox(x, out, angles, p.rotary_dim / 2);
    }
    if (x != out) {
      for (int64_t i = p.rotary_dim; i < p.head_dim; ++i) out[i] = x[i];
    }
    x += heads.in_stride_head;
    out += heads.out_stride_head;
  }
}

template <class T>
void Tokens(const RopeParams& p, const RopeFrequencies& frequencies, int64_t begin, int64_t end) {
  Angles angles;
  for (int64_t token = begin; token < end; ++token) {
    FillAngles(p, frequencies, token, angles);
    Heads<T>(p, p.q, token, angles);
    Heads<T>(p, p.k, token, angles);
  }
}

}  // namespace

void RopeTokens(const RopeParams& p, const RopeFrequencies& frequencies, int64_t begin,
                int64_t end) {
  if (p.dtype == DType::kF32) return Tokens<float>(p, frequencies, begin, end);
  if (p.dtype == DType::kF16) return Tokens<F16>(p, frequencies, begin, end);
  Tokens<BF16>(p, frequencies, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
