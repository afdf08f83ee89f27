// SPDX-License-Identifier: Apache-2.0
// Quantised weights times activations of 8 bits.
//
// Weights are unpacked once per block of tokens. With few tokens the limiter is reading them; with
// many it is the multipliers: a tile of 32 columns takes eight dot products per row vector and
// token, and two or three multiplications to scale their sum.
#include <atomic>

#include "backends/cpu/simd/linear_store.h"
#include "backends/cpu/simd/quantized_formats.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

inline int32_t LoadDword(const int8_t* p) {
  int32_t x = 0;
  __builtin_memcpy(&x, p, 4);
  return x;
}

template <class Format, int kChunk, int kTokens>
inline void AddChunk(const WeightTile& w, const ActivationTile<kTokens>& a, I32 (&dots)[kTokens]) {
  const U8 q = Format::template Quads<kChunk>(w);
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
    dots[t] = Dot<Format::kBits>(dots[t], q, I32::Set(LoadDword(a.quants[t] + 4 * kChunk)));
  }
}

template <class Format, int kTile, int kGroup, int kTokens>
inline void AddGroup(const WeightTile& w, const ActivationTile<kTokens>& a, F32 (&acc)[kTokens]) {
  I32 dots[kTokens];
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
    dots[t] = I32::Set(0);
    if constexpr (Format::kOffsetShift > 0) {
      const int32_t* sums = Format::kGroups == 1 ? a.negative_sums : a.negative_half_sums[kGroup];
      dots[t] = ShiftLeft(I32::Set(sums[t]), Format::kOffsetShift);
    }
  }
  constexpr int kFirst = 8 / Format::kGroups * kGroup;
  AddChunk<Format, kFirst>(w, a, dots);
  AddChunk<Format, kFirst + 1>(w, a, dots);
  AddChunk<Format, kFirst + 2>(w, a, dots);
  AddChunk<Format, kFirst + 3>(w, a, dots);
  if constexpr (Format::kGroups == 1) {
    AddChunk<Format, 4>(w, a, dots);
    AddChunk<Format, 5>(w, a, dots);
    AddChunk<Format, 6>(w, a, dots);
    AddChunk<Format, 7>(w, a, dots);
  }
  const F32 scale = Format::template Scale<kTile>(w, kGroup);
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
    acc[t] = Fma(ToF32(dots[t]), scale * F32::Set(a.scales[t]), acc[t]);
  }
  if constexpr (Format::kHasMin) {
    const F32 min = Format::template Min<kTile>(w);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) acc[t] = Fma(min, F32::Set(a.scaled_sums[t]), acc[t]);
  }
}

/// Tile kTile of a header, and moves on.
template <class Format, int kTile, int kTokens>
inline void AddTile(WeightTile& w, const ActivationTile<kTokens>& a, F32 (&acc)[kTokens]) {
  AddGroup<Format, kTile, 0>(w, a, acc);
  if constexpr (Format::kGroups == 2) AddGroup<Format, kTile, 1>(w, a, acc);
  w.p += TileBytes(Format::kFormat);
}

template <class Format, int kTokens>
void AddTiles(WeightTile w, const ActivationTile<kTokens>* a, int64_t num_tiles,
              F32 (&sums)[kTokens]) {
  F32 acc[kTokens];  // its own, which no store through a pointer can change
  for (F32& sum : acc) sum = F32::Set(0.0f);
  if constexpr (!Format::kIsSuper) {
    for (int64_t tile = 0; tile < num_tiles; ++tile) AddTile<Format, 0>(w, a[tile], acc);
  } else {
    for (int64_t tile = 0; tile < num_tiles; tile += 8) {
      w.ReadHeader(Format::kFormat);
      // Few tokens: memory is read in order, as prefetchers want it, not where a value is used.
      if (kTokens <= 4) std::atomic_signal_fence(std::memory_order_seq_cst);
      AddTile<Format, 0>(w, a[tile], acc);
      AddTile<Format, 1>(w, a[tile + 1], acc);
      AddTile<Format, 2>(w, a[tile + 2], acc);
      AddTile<Format, 3>(w, a[tile + 3], acc);
      AddTile<Format, 4>(w, a[tile + 4], acc);
      AddTile<Format, 5>(w, a[tile + 5], acc);
      AddTile<Format, 6>(w, a[tile + 6], acc);
      AddTile<Format, 7>(w, a[tile + 7], acc);
    }
  }
  for (int t = 0; t < kTokens; ++t) sums[t] = acc[t];
}

/// One row vector after the other: its sums in integers and in floats fill the registers, and
/// memory answers one stream twice as fast as two in turns.
template <class Format, int kTokens>
void Block(const LinearPanelTask& task, int64_t token) {
  const int64_t num_tiles = task.activations->cols / kTileCols;
  const auto* a = reinterpret_cast<const ActivationTile<kTokens>*>(
      task.activations->tiles + token * num_tiles * kActivationTileBytes);
  F32 acc[kRowVectors][kTokens];
  for (int v = 0; v < kRowVectors; ++v) {
    WeightTile first;
    first.p = PanelOf(task, v);
    first.row = RowInPanel(v);
    AddTiles<Format>(first, a, num_tiles, acc[v]);
  }
  StoreSums(task, token, acc);
}

template <class Format>
void Blocks(const LinearPanelTask& task) {
  ForEachBlock(task.num_tokens,
               [&]<int kTokens>(int64_t token) { Block<Format, kTokens>(task, token); });
}

}  // namespace

void QuantizedPanel(const LinearPanelTask& task) {
  switch (task.format) {
    case WeightFormat::kQ4_0:
      return Blocks<Q4_0>(task);
    case WeightFormat::kQ4_1:
      return Blocks<Q4_1>(task);
    case WeightFormat::kQ8_0:
      return Blocks<Q8_0>(task);
    case WeightFormat::kQ4_K:
      return Blocks<Q4_K>(task);
    case WeightFormat::kQ6_K:
      return Blocks<Q6_K>(task);
    case WeightFormat::kQ5_0:
      return Blocks<Q5_0>(task);
    case WeightFormat::kQ5_1:
      return Blocks<Q5_1>(task);
    case WeightFormat::kQ5_K:
      return Blocks<Q5_K>(task);
    case WeightFormat::kMXFP4:
      return Blocks<MXFP4>(task);
    default:
      return;
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
