// SPDX-License-Identifier: Apache-2.0
// How each quantised format's tile of 32 columns (linear_layout.h) becomes bytes and scales.
//
// A format tells: kFormat; kGroups, parts of a tile with a scale of their own; kOffsetShift, the
// logarithm of what is subtracted from the quants (0: nothing); kHasMin, whether a multiple of the
// activations' sum is added; kIsSuper, whether 256 columns share a header; kBits. Quads<c>() is
// columns 4c to 4c + 3 of F32::kWidth rows, Scale<t>() and Min<t>() those of tile t of a header.
#pragma once

#include "backends/cpu/linear_layout.h"
#include "backends/cpu/simd/simd_int8.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// What the tiles of 256 columns share, of F32::kWidth rows.
struct SuperHeader {
  F32 d;
  F32 minus_dmin;
  I32 scale_words[kPackedScaleWords];
};

/// One tile of F32::kWidth rows that begin at `row` of their panel.
struct WeightTile {
  const uint8_t* p;
  int row;
  SuperHeader header;

  F32 Halves(int64_t offset) const { return Load(reinterpret_cast<const F16*>(p + offset) + row); }
  F32 Bytes(int64_t offset) const { return LoadBytes(p + offset + row); }
  F32 SignedBytes(int64_t offset) const {
    return Load(reinterpret_cast<const int8_t*>(p + offset) + row);
  }
  /// Number kIndex of the packed scales.
  template <int kIndex>
  F32 PackedScale() const {
    if constexpr (kIndex < 15) {
      return ToF32(ShiftRight(ScaleWord(kIndex / 5), kIndex % 5 * 6) & I32::Set(63));
    } else {
      const I32 middle = ShiftLeft(ShiftRight(ScaleWord(1), 30), 2);
      const I32 high = ShiftLeft(ShiftRight(ScaleWord(2), 30), 4);
      return ToF32(ShiftRight(ScaleWord(0), 30) | middle | high);
    }
  }
  I32 ScaleWord(int j) const { return header.scale_words[j]; }

  /// Reads the header at p, and moves on to the first tile.
  void ReadHeader(WeightFormat format) {
    header.d = Halves(0);
    if (HasPackedScales(format)) {
      header.minus_dmin = F32::Set(0.0f) - Halves(2 * kPanelRows);
      for (int j = 0; j < kPackedScaleWords; ++j) {
        header.scale_words[j] = LoadI32(p + 4 * (kPanelRows * (1 + j) + row));
      }
    }
    p += SuperHeaderBytes(format);
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
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return w.Halves(kNibbleBytes);
  }
};

struct Q4_1 : TileFormat<WeightFormat::kQ4_1, 1, 0, true> {
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return w.Halves(kNibbleBytes);
  }
  template <int>
  static F32 Min(const WeightTile& w) {
    return w.Halves(kNibbleBytes + 32);
  }
};

struct Q8_0 : TileFormat<WeightFormat::kQ8_0, 1, 7, false, false, QuantBits::k8> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return w.Chunk(c * 64);
  }
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return w.Halves(kByteBytes);
  }
};

struct Q4_K : TileFormat<WeightFormat::kQ4_K, 1, 0, true, true> {
  template <int kTile>
  static F32 Scale(const WeightTile& w, int) {
    return w.header.d * w.PackedScale<kTile>();
  }
  template <int kTile>
  static F32 Min(const WeightTile& w) {
    return w.header.minus_dmin * w.PackedScale<8 + kTile>();
  }
};

struct Q6_K : TileFormat<WeightFormat::kQ6_K, 2, 5, false, true> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return Nibbles<c>(w) | HighBits<c % 4>(w.Chunk(kNibbleBytes + c / 4 * 64));
  }
  template <int>
  static F32 Scale(const WeightTile& w, int group) {
    return w.header.d * w.SignedBytes(kNibbleBytes + kHighBytes + group * 16);
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
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return w.Halves(kNibbleBytes + kFifthBytes);
  }
};

struct Q5_1 : WithFifthBits<TileFormat<WeightFormat::kQ5_1, 1, 0, true>> {
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return w.Halves(kNibbleBytes + kFifthBytes);
  }
  template <int>
  static F32 Min(const WeightTile& w) {
    return w.Halves(kNibbleBytes + kFifthBytes + 32);
  }
};

struct Q5_K : WithFifthBits<Q4_K> {
  static constexpr WeightFormat kFormat = WeightFormat::kQ5_K;
};

struct MXFP4 : TileFormat<WeightFormat::kMXFP4, 1, 4, false> {
  template <int c>
  static U8 Quads(const WeightTile& w) {
    return LookUp(kE2m1Quants, Nibbles<c>(w));
  }
  template <int>
  static F32 Scale(const WeightTile& w, int) {
    return ScaleByPowerOfTwo(F32::Set(1.0f), w.Bytes(kNibbleBytes) - F32::Set(128.0f));
  }
};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
