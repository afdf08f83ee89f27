// SPDX-License-Identifier: Apache-2.0
// What the kernels of linear layers share: register tiles, and how their results are written.
#pragma once

#include "backends/cpu/linear_layout.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// A task is kRowVectors vectors of rows by blocks of up to kMaxBlock tokens: with 32 registers, 24
/// sums, two weights and what it takes to feed them; with 16 registers, 8 sums.
inline constexpr int kRowVectors = 2;
#if defined(__AVX512F__)
inline constexpr int kMaxBlock = 12;
#else
inline constexpr int kMaxBlock = 4;
#endif
inline constexpr int kTileRows = kRowVectors * F32::kWidth;
inline constexpr int kPanelsPerTask =
    kTileRows < kPanelRows ? 1 : kTileRows / static_cast<int>(kPanelRows);
static_assert(kTileRows % kPanelRows == 0);

/// Tokens of the next block when `remaining` are left.
inline int NextBlock(int64_t remaining) {
  if (kMaxBlock > 8 && remaining >= kMaxBlock) return kMaxBlock;
  if (kMaxBlock >= 8 && remaining >= 8) return 8;
  if (remaining >= 4) return 4;
  return remaining >= 2 ? 2 : static_cast<int>(remaining);
}

/// The panel of row vector `v`; one that is not there stands for the first, and is not stored.
inline const uint8_t* PanelOf(const LinearPanelTask& task, int v) {
  const int first_row = v * F32::kWidth;
  return task.panel + (first_row < task.num_rows ? first_row / kPanelRows * task.panel_bytes : 0);
}
constexpr int RowInPanel(int v) { return v * F32::kWidth % static_cast<int>(kPanelRows); }

template <class T>
inline void StoreToken(const LinearPanelTask& task, int64_t token, const float* sums) {
  T* out = reinterpret_cast<T*>(task.out) + token * task.out_stride;
  const T* residual = task.residual == nullptr ? nullptr
                                               : reinterpret_cast<const T*>(task.residual) +
                                                     token * task.residual_stride;
  const F32 scale = F32::Set(task.scale);
  for (int row = 0; row < task.num_rows; row += F32::kWidth) {
    const int n = task.num_rows - row < F32::kWidth ? task.num_rows - row : F32::kWidth;
    F32 value = Load(sums + row) * scale;
    if (task.bias != nullptr) value = value + Load(task.bias + row, n);
    if (residual != nullptr) value = value + Load(residual + row, n);
    Store(out + row, value, n);
  }
}

/// Adds bias and residual and writes tokens `token` to `token + num_tokens`; sums is
/// [num_tokens, kTileRows].
inline void StoreBlock(const LinearPanelTask& task, int64_t token, int num_tokens,
                       const float* sums) {
  for (int t = 0; t < num_tokens; ++t, sums += kTileRows) {
    if (task.dtype_out == DType::kF32) {
      StoreToken<float>(task, token + t, sums);
    } else if (task.dtype_out == DType::kF16) {
      StoreToken<F16>(task, token + t, sums);
    } else {
      StoreToken<BF16>(task, token + t, sums);
    }
  }
}

template <int kTokens>
inline void StoreSums(const LinearPanelTask& task, int64_t token,
                      const F32 (&acc)[kRowVectors][kTokens]) {
  float sums[kTokens * kTileRows];
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kRowVectors; ++v) Store(sums + t * kTileRows + v * F32::kWidth, acc[v][t]);
  }
  StoreBlock(task, token, kTokens, sums);
}

/// Calls `function.template operator()<T>(token)` for each block of T tokens.
template <class Function>
inline void ForEachBlock(int64_t num_tokens, Function&& function) {
  for (int64_t token = 0; token < num_tokens;) {
    const int block = NextBlock(num_tokens - token);
    switch (block) {
#if defined(__AVX512F__)
      case 12:
        function.template operator()<12>(token);
        break;
      case 8:
        function.template operator()<8>(token);
        break;
#endif
      case 4:
        function.template operator()<4>(token);
        break;
      case 2:
        function.template operator()<2>(token);
        break;
      default:
        function.template operator()<1>(token);
    }
    token += block;
  }
}

void QuantizedPanel(const LinearPanelTask& task);
void PlainPanel(const LinearPanelTask& task);

}  // namespace flashinfer::cpu::FLASHINFER_ISA
