// SPDX-License-Identifier: Apache-2.0
// Floating-point weights times activations: one multiply-add per weight, row vector and token.
#include "backends/cpu/simd/linear_store.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class W, int kTokens>
void PlainBlock(const LinearPanelTask& task, int64_t token) {
  const int64_t cols = task.activations->cols;
  const float* x = task.activations->floats + token * cols;
  F32 acc[kRowVectors][kTokens];
  const W* w[kRowVectors];
  for (int v = 0; v < kRowVectors; ++v) {
    for (F32& sum : acc[v]) sum = F32::Set(0.0f);
    w[v] = reinterpret_cast<const W*>(PanelOf(task, v)) + RowInPanel(v);
  }
  for (int64_t k = 0; k < cols; ++k) {
    F32 weights[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) weights[v] = Load(w[v] + k * kPanelRows);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const F32 value = F32::Set(x[k * kTokens + t]);
      for (int v = 0; v < kRowVectors; ++v) acc[v][t] = Fma(weights[v], value, acc[v][t]);
    }
  }
  StoreSums(task, token, acc);
}

#if defined(__AVX512BF16__)

/// Two columns at a time: products of bf16 pairs, added in float32.
template <int kTokens>
void PairBlock(const LinearPanelTask& task, int64_t token) {
  const int64_t num_pairs = (task.activations->cols + 1) / 2;
  const uint32_t* x = task.activations->pairs + token * num_pairs;
  F32 acc[kRowVectors][kTokens];
  const uint8_t* w[kRowVectors];
  for (int v = 0; v < kRowVectors; ++v) {
    for (F32& sum : acc[v]) sum = F32::Set(0.0f);
    w[v] = PanelOf(task, v);
  }
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    __m512bh weights[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) {
      weights[v] = (__m512bh)_mm512_loadu_si512(w[v] + pair * 64);
    }
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const auto value = (__m512bh)_mm512_set1_epi32(static_cast<int32_t>(x[pair * kTokens + t]));
      for (int v = 0; v < kRowVectors; ++v) {
        acc[v][t].v = _mm512_dpbf16_ps(acc[v][t].v, weights[v], value);
      }
    }
  }
  StoreSums(task, token, acc);
}

#else

/// Columns 2i and 2i + 1 of F32::kWidth rows, from 32-bit pairs.
struct ColumnPair {
  F32 even;
  F32 odd;
};
inline ColumnPair LoadPairs(const uint8_t* p) {
#if defined(__AVX512F__)
  const __m512i pairs = _mm512_loadu_si512(p);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))},
          {_mm512_castsi512_ps(
              _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000))))}};
#elif defined(__AVX2__)
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16))},
          {_mm256_castsi256_ps(
              _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int32_t>(0xffff0000))))}};
#else
  BF16 lanes[2][F32::kWidth];
  for (int i = 0; i < F32::kWidth; ++i) {
    __builtin_memcpy(&lanes[0][i], p + 4 * i, 2);
    __builtin_memcpy(&lanes[1][i], p + 4 * i + 2, 2);
  }
  return {Load(lanes[0]), Load(lanes[1])};
#endif
}

/// Two columns at a time, widened to floats.
template <int kTokens>
void PairBlock(const LinearPanelTask& task, int64_t token) {
  const int64_t cols = task.activations->cols;
  const float* x = task.activations->floats + token * cols;
  F32 acc[kRowVectors][kTokens];
  const uint8_t* w[kRowVectors];
  for (int v = 0; v < kRowVectors; ++v) {
    for (F32& sum : acc[v]) sum = F32::Set(0.0f);
    w[v] = PanelOf(task, v) + RowInPanel(v) * 4;
  }
  for (int64_t k = 0; k < cols; k += 2) {
    const float* next = x + (k + 1 < cols ? k + 1 : k) * kTokens;  // its weights are 0 at the end
    ColumnPair pairs[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) pairs[v] = LoadPairs(w[v] + k / 2 * 64);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const F32 even = F32::Set(x[k * kTokens + t]);
      const F32 odd = F32::Set(next[t]);
      for (int v = 0; v < kRowVectors; ++v) {
        acc[v][t] = Fma(pairs[v].odd, odd, Fma(pairs[v].even, even, acc[v][t]));
      }
    }
  }
  StoreSums(task, token, acc);
}

#endif

}  // namespace

void PlainPanel(const LinearPanelTask& task) {
  ForEachBlock(task.num_tokens, [&]<int kTokens>(int64_t token) {
    if (task.format == WeightFormat::kF32) {
      PlainBlock<float, kTokens>(task, token);
    } else if (task.format == WeightFormat::kF16) {
      PlainBlock<F16, kTokens>(task, token);
    } else {
      PairBlock<kTokens>(task, token);
    }
  });
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
