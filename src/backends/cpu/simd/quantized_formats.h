// SPDX-License-Identifier: Apache-2.0
// How each quantised format's tile of 32 columns (linear_layout.h) becomes bytes and scales.
//
// A format tells: kFormat; kGroups, parts of a tile with a scale of their own; kOffsetShift, the
// logarithm of what is subtracted from the quants (0: nothing); kHasMin, whether a multiple of the
// activations' sum is added; kIsSuper, whether 256 columns share a header; kBits. Quads<c>() is
// columns 4c to 4c + 3 of F32::kWidth rows.
#pragma once

#include "backends/cpu/linear_layout.h"
#include "backends/cpu/simd/simd_int8.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// One tile of F32::kWidth rows that begin at `row` of their panel.
struct WeightTile {
  const uint8_t* p;
  const uint8_t* header;
  int row;

  F32 Halves(int64_t offset) const { return Load(reinterpret_cast<const F16*>(p + offset) + row); }
  F32 HeaderHalves(int64_t offset) const {
    return Load(reinterpret_cast<const F16*>(header + offset) + row);
  }
  F32 Bytes(int64_t offset) const { return LoadBytes(p + offset + row); }
  F32 SignedBytes(int64_t offset) const {
    return Load(reinterpret_cast<const int8_t*>(p + offset) + row);
  }
  U8 Chunk(int64_t offset) const { return LoadU8(p + offset + row * 4); }
};

template <WeightFormat format, int groups, int offset_shift, bool has_min, bool is_super = false,
          QuantBits bits = QuantBits::k6>
struct TileFormat {
  static constexpr WeightFormat kFormat = format;
  static constexpr int kGroups = groups;
  static constexpr int kOffsetShift = offset_shift;
  static constexpr bool kHasMin = has_min;
  static constexpr bool kIsSuper = is_super;
  static constexpr QuantBits kBits = bits;

  template <int c>
  static U8 Nibbles(const WeightTile& w) {
    const U8 both = w.Chunk(c / 2 * 64);
    return c % 2 == 0 ? LowNibbles(both) : HighNibbles(both);
  }
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return Nibbles<c>(w);
  }
};

struct Q4_0 : TileFormat<WeightFormat::kQ4_0, 1, 3, false> {
  static F32 Scale(const WeightTile& w, int) { return w.Halves(kNibbleBytes); }
};

struct Q4_1 : TileFormat<WeightFormat::kQ4_1, 1, 0, true> {
  static F32 Scale(const WeightTile& w, int) { return w.Halves(kNibbleBytes); }
  static F32 Min(const WeightTile& w) { return w.Halves(kNibbleBytes + 32); }
};

struct Q8_0 : TileFormat<WeightFormat::kQ8_0, 1, 7, false, false, QuantBits::k8> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return w.Chunk(c * 64);
  }
  static F32 Scale(const WeightTile& w, int) { return w.Halves(kByteBytes); }
};

struct Q4_K : TileFormat<WeightFormat::kQ4_K, 1, 0, true, true> {
  static F32 Scale(const WeightTile& w, int) { return w.HeaderHalves(0) * w.Bytes(kNibbleBytes); }
  static F32 Min(const WeightTile& w) {
    return F32::Set(0.0f) - w.HeaderHalves(32) * w.Bytes(kNibbleBytes + 16);
  }
};

struct Q6_K : TileFormat<WeightFormat::kQ6_K, 2, 5, false, true> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return Nibbles<c>(w) | HighBits<c % 4>(w.Chunk(kNibbleBytes + c / 4 * 64));
  }
  static F32 Scale(const WeightTile& w, int group) {
    return w.HeaderHalves(0) * w.SignedBytes(kNibbleBytes + kHighBytes + group * 16);
  }
};

template <class Four>
struct WithFifthBits : Four {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return Four::template Nibbles<c>(w) | FifthBit<c>(w.Chunk(kNibbleBytes));
  }
};

struct Q5_0 : WithFifthBits<TileFormat<WeightFormat::kQ5_0, 1, 4, false>> {
  static F32 Scale(const WeightTile& w, int) { return w.Halves(kNibbleBytes + kFifthBytes); }
};

struct Q5_1 : WithFifthBits<TileFormat<WeightFormat::kQ5_1, 1, 0, true>> {
  static F32 Scale(const WeightTile& w, int) { return w.Halves(kNibbleBytes + kFifthBytes); }
  static F32 Min(const WeightTile& w) { return w.Halves(kNibbleBytes + kFifthBytes + 32); }
};

struct Q5_K : WithFifthBits<TileFormat<WeightFormat::kQ5_K, 1, 0, true, true>> {
  static F32 Scale(const WeightTile& w, int) {
    return w.HeaderHalves(0) * w.Bytes(kNibbleBytes + kFifthBytes);
  }
  static F32 Min(const WeightTile& w) {
    return F32::Set(0.0f) - w.HeaderHalves(32) * w.Bytes(kNibbleBytes + kFifthBytes + 16);
  }
};

struct MXFP4 : TileFormat<WeightFormat::kMXFP4, 1, 4, false> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return LookUp(kE2m1Quants, Nibbles<c>(w));
  }
  static F32 Scale(const WeightTile& w, int) {
    return ScaleByPowerOfTwo(F32::Set(1.0f), w.Bytes(kNibbleBytes) - F32::Set(128.0f));
  }
};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
