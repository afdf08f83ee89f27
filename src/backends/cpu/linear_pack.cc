// SPDX-License-Identifier: Apache-2.0
// Repacking of GGUF blocks; the block layouts are those of the GGUF specification (ggml-common.h
// names them block_q4_0 and so on).
#include "backends/cpu/linear_pack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

uint16_t Read16(const uint8_t* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return bits;
}
float ReadF16(const uint8_t* p) { return ToFloat(F16{Read16(p)}); }

void ReadNibbles(const uint8_t* p, RowTile& tile) {
  for (size_t i = 0; i < 16; ++i) {
    tile.q[i] = p[i] & 15;
    tile.q[i + 16] = p[i] >> 4;
  }
}

/// The 6-bit scale and min of sub-block j in the 12 packed bytes of a Q4_K block.
std::array<uint8_t, 2> Q4KScales(const uint8_t* p, int64_t j) {
  if (j < 4) return {static_cast<uint8_t>(p[j] & 63), static_cast<uint8_t>(p[j + 4] & 63)};
  return {static_cast<uint8_t>((p[j + 4] & 15) | ((p[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((p[j + 4] >> 4) | ((p[j] >> 6) << 4))};
}

void ReadQ4K(const uint8_t* block, int64_t sub, RowTile& tile) {
  tile.d = Read16(block);
  tile.m = Read16(block + 2);
  tile.scales = Q4KScales(block + 4, sub);
  const uint8_t* q = block + 16 + sub / 2 * 32;
  for (size_t i = 0; i < 32; ++i) tile.q[i] = sub % 2 == 0 ? q[i] & 15 : q[i] >> 4;
}

void AddFifthBits(const uint8_t* bits, RowTile& tile) {
  for (size_t i = 0; i < 32; ++i) {
    tile.q[i] = static_cast<uint8_t>(tile.q[i] | ((bits[i / 8] >> (i % 8)) & 1) << 4);
  }
}

void ReadQ5K(const uint8_t* block, int64_t sub, RowTile& tile) {
  tile.d = Read16(block);
  tile.m = Read16(block + 2);
  tile.scales = Q4KScales(block + 4, sub);
  const uint8_t* high = block + 16;
  const uint8_t* q = block + 48 + sub / 2 * 32;
  for (size_t i = 0; i < 32; ++i) {
    const int nibble = sub % 2 == 0 ? q[i] & 15 : q[i] >> 4;
    tile.q[i] = static_cast<uint8_t>(nibble | ((high[i] >> sub) & 1) << 4);
  }
}

void ReadQ6K(const uint8_t* block, int64_t sub, RowTile& tile) {
  // Two halves of 128 columns: 64 bytes of low nibbles, 32 of high bits each.
  const int64_t half = sub / 4;
  const int64_t quarter = sub % 4;
  const uint8_t* low = block + half * 64 + quarter % 2 * 32;
  const uint8_t* high = block + 128 + half * 32;
  for (size_t i = 0; i < 32; ++i) {
    const int nibble = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    tile.q[i] = static_cast<uint8_t>(nibble | (((high[i] >> (2 * quarter)) & 3) << 4));
  }
  tile.scales = {block[192 + sub * 2], block[192 + sub * 2 + 1]};
  tile.d = Read16(block + 208);
}

}  // namespace

RowTile ReadTile(WeightFormat format, const uint8_t* row, int64_t t) {
  RowTile tile;
  switch (format) {
    case WeightFormat::kQ4_0: {
      const uint8_t* block = row + t * 18;
      tile.d = Read16(block);
      ReadNibbles(block + 2, tile);
      break;
    }
    case WeightFormat::kQ4_1: {
      const uint8_t* block = row + t * 20;
      tile.d = Read16(block);
      tile.m = Read16(block + 2);
      ReadNibbles(block + 4, tile);
      break;
    }
    case WeightFormat::kQ8_0: {
      const uint8_t* block = row + t * 34;
      tile.d = Read16(block);
      for (size_t i = 0; i < 32; ++i) tile.q[i] = static_cast<uint8_t>(block[2 + i] ^ 0x80);
      break;
    }
    case WeightFormat::kQ4_K:
      ReadQ4K(row + t / 8 * 144, t % 8, tile);
      break;
    case WeightFormat::kQ6_K:
      ReadQ6K(row + t / 8 * 210, t % 8, tile);
      break;
    case WeightFormat::kQ5_0: {
      const uint8_t* block = row + t * 22;
      tile.d = Read16(block);
      ReadNibbles(block + 6, tile);
      AddFifthBits(block + 2, tile);
      break;
    }
    case WeightFormat::kQ5_1: {
      const uint8_t* block = row + t * 24;
      tile.d = Read16(block);
      tile.m = Read16(block + 2);
      ReadNibbles(block + 8, tile);
      AddFifthBits(block + 4, tile);
      break;
    }
    case WeightFormat::kQ5_K:
      ReadQ5K(row + t / 8 * 176, t % 8, tile);
      break;
    case WeightFormat::kMXFP4:
      tile.scales[0] = row[t * 17];
      ReadNibbles(row + t * 17 + 1, tile);
      break;
    default:
      FLASHINFER_ASSERT(false, "{} has no tiles", Name(format));
  }
  return tile;
}

namespace {

/// Offset of tile `t` in a panel, and of the header that holds its d.
int64_t TileOffset(WeightFormat format, int64_t t) {
  return t * TileBytes(format) + (t / 8 + 1) * SuperHeaderBytes(format);
}
int64_t HeaderOffset(WeightFormat format, int64_t t) {
  return t / 8 * (SuperHeaderBytes(format) + 8 * TileBytes(format));
}

void Write16(uint8_t* p, int64_t index, uint16_t bits) { std::memcpy(p + index * 2, &bits, 2); }

/// Word `j` of a row's packed scales, in the header of 256 columns.
uint32_t ReadScaleWord(const uint8_t* header, int64_t row, int64_t j) {
  uint32_t word = 0;
  std::memcpy(&word, header + 4 * (kPanelRows * (1 + j) + row), 4);
  return word;
}

/// Sets number `i` of a row's packed scales, which is 0.
void AddPackedScale(uint8_t* header, int64_t row, int64_t i, uint32_t value) {
  const auto add = [&](int64_t j, uint32_t bits) {
    const uint32_t word = ReadScaleWord(header, row, j) | bits;
    std::memcpy(header + 4 * (kPanelRows * (1 + j) + row), &word, 4);
  };
  if (i < 15) return add(i / 5, value << (i % 5 * 6));
  for (int64_t j = 0; j < kPackedScaleWords; ++j) add(j, ((value >> (2 * j)) & 3) << 30);
}

int PackedScale(const uint8_t* header, int64_t row, int64_t i) {
  if (i < 15) return static_cast<int>((ReadScaleWord(header, row, i / 5) >> (i % 5 * 6)) & 63);
  uint32_t value = 0;
  for (int64_t j = 0; j < kPackedScaleWords; ++j) {
    value |= ReadScaleWord(header, row, j) >> 30 << (2 * j);
  }
  return static_cast<int>(value);
}

/// Offset of what multiplies the quants, in a tile.
int64_t TailOffset(WeightFormat format) {
  if (format == WeightFormat::kQ8_0) return kByteBytes;
  if (format == WeightFormat::kQ6_K) return kNibbleBytes + kHighBytes;
  return kNibbleBytes + (HasFifthBits(format) ? kFifthBytes : 0);
}

void StoreTile(WeightFormat format, const RowTile& tile, int64_t row, int64_t t, uint8_t* panel) {
  uint8_t* p = panel + TileOffset(format, t);
  const bool is_bytes = format == WeightFormat::kQ8_0;
  for (int64_t k = 0; k < kTileCols; ++k) {
    const uint8_t q = tile.q[static_cast<size_t>(k)];
    if (is_bytes) {
      p[k / 4 * 64 + row * 4 + k % 4] = q;
    } else {
      uint8_t& byte = p[k / 8 * 64 + row * 4 + k % 4];
      byte = static_cast<uint8_t>(byte | ((q & 15) << (k % 8 < 4 ? 0 : 4)));
    }
    if (format == WeightFormat::kQ6_K) {
      uint8_t& byte = p[kNibbleBytes + k / 16 * 64 + row * 4 + k % 4];
      byte = static_cast<uint8_t>(byte | ((q >> 4) << (k % 16 / 4 * 2)));
    }
  }
  if (HasFifthBits(format)) {
    for (int64_t k = 0; k < kTileCols; ++k) {
      uint8_t& byte = p[kNibbleBytes + row * 4 + k % 4];
      byte = static_cast<uint8_t>(byte | (tile.q[static_cast<size_t>(k)] >> 4) << (k / 4));
    }
  }
  uint8_t* tail = p + TailOffset(format);
  if (IsSuper(format)) {
    uint8_t* header = panel + HeaderOffset(format, t);
    Write16(header, row, tile.d);
    if (HasPackedScales(format)) {
      Write16(header, 16 + row, tile.m);
      AddPackedScale(header, row, t % 8, tile.scales[0]);
      AddPackedScale(header, row, 8 + t % 8, tile.scales[1]);
    } else {
      tail[row] = tile.scales[0];
      tail[16 + row] = tile.scales[1];
    }
  } else if (format == WeightFormat::kMXFP4) {
    tail[row] = tile.scales[0];
  } else {
    Write16(tail, row, tile.d);
    if (format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1)
      Write16(tail, 16 + row, tile.m);
  }
}

/// Interleaves `count` units of each row; sixteen at a time, so that reads and writes both stay
/// within a few cache lines.
template <class Unit>
void Interleave(const uint8_t* rows, int64_t row_bytes, int64_t num_rows, int64_t count,
                uint8_t* panel) {
  constexpr int64_t kAtOnce = 16;
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, count);
    for (int64_t r = 0; r < num_rows; ++r) {
      const uint8_t* from = rows + r * row_bytes;
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(panel + (i * kPanelRows + r) * static_cast<int64_t>(sizeof(Unit)),
                    from + i * static_cast<int64_t>(sizeof(Unit)), sizeof(Unit));
      }
    }
  }
}

void PackPlain(const WeightView& source, int64_t row, int64_t num_rows, uint8_t* panel) {
  const int64_t size = BlockBytes(source.format);
  const int64_t row_bytes = source.cols * size;
  const uint8_t* rows = static_cast<const uint8_t*>(source.data) + row * row_bytes;
  if (source.format == WeightFormat::kF16) {
    return Interleave<uint16_t>(rows, row_bytes, num_rows, source.cols, panel);
  }
  if (source.format == WeightFormat::kF32) {
    return Interleave<uint32_t>(rows, row_bytes, num_rows, source.cols, panel);
  }
  Interleave<uint32_t>(rows, row_bytes, num_rows, source.cols / 2, panel);
  if (source.cols % 2 == 0) return;
  for (int64_t r = 0; r < num_rows; ++r) {
    std::memcpy(panel + (source.cols / 2 * kPanelRows + r) * 4, rows + (r + 1) * row_bytes - 2, 2);
  }
}

int Quant(WeightFormat format, const uint8_t* tile, int64_t row, int64_t k) {
  if (format == WeightFormat::kQ8_0) return tile[k / 4 * 64 + row * 4 + k % 4];
  const int nibble = (tile[k / 8 * 64 + row * 4 + k % 4] >> (k % 8 < 4 ? 0 : 4)) & 15;
  if (HasFifthBits(format)) {
    return nibble | ((tile[kNibbleBytes + row * 4 + k % 4] >> (k / 4)) & 1) << 4;
  }
  if (format != WeightFormat::kQ6_K) return nibble;
  const uint8_t high = tile[kNibbleBytes + k / 16 * 64 + row * 4 + k % 4];
  return nibble | (((high >> (k % 16 / 4 * 2)) & 3) << 4);
}

void UnpackTile(WeightFormat format, const uint8_t* panel, int64_t row, int64_t t, float* out) {
  const uint8_t* p = panel + TileOffset(format, t);
  const uint8_t* tail = p + TailOffset(format);
  const uint8_t* header = panel + HeaderOffset(format, t);
  for (int64_t k = 0; k < kTileCols; ++k) {
    const int q = Quant(format, p, row, k);
    switch (format) {
      case WeightFormat::kQ4_0:
        out[k] = ReadF16(tail + row * 2) * static_cast<float>(q - 8);
        break;
      case WeightFormat::kQ5_0:
        out[k] = ReadF16(tail + row * 2) * static_cast<float>(q - 16);
        break;
      case WeightFormat::kQ8_0:
        out[k] = ReadF16(tail + row * 2) * static_cast<float>(q - 128);
        break;
      case WeightFormat::kQ4_1:
      case WeightFormat::kQ5_1:
        out[k] = ReadF16(tail + row * 2) * static_cast<float>(q) + ReadF16(tail + 32 + row * 2);
        break;
      case WeightFormat::kQ4_K:
      case WeightFormat::kQ5_K:
        out[k] = ReadF16(header + row * 2) * static_cast<float>(PackedScale(header, row, t % 8)) *
                     static_cast<float>(q) -
                 ReadF16(header + 32 + row * 2) *
                     static_cast<float>(PackedScale(header, row, 8 + t % 8));
        break;
      case WeightFormat::kMXFP4:
        out[k] = std::ldexp(static_cast<float>(kE2m1Quants[q] - 16), tail[row] - 128);
        break;
      default:
        out[k] = ReadF16(header + row * 2) *
                 static_cast<float>(static_cast<int8_t>(tail[k / 16 * 16 + row])) *
                 static_cast<float>(q - 32);
    }
  }
}

}  // namespace

void PackPanel(const WeightView& source, int64_t row, uint8_t* panel) {
  const int64_t num_rows = std::min(kPanelRows, source.rows - row);
  const bool is_quantized = IsQuantized(source.format);
  if (is_quantized || num_rows < kPanelRows || source.cols % 2 != 0) {
    std::memset(panel, 0, static_cast<size_t>(PanelBytes(source.format, source.cols)));
  }
  if (!is_quantized) return PackPlain(source, row, num_rows, panel);
  const int64_t row_bytes = source.cols / BlockSize(source.format) * BlockBytes(source.format);
  for (int64_t r = 0; r < num_rows; ++r) {
    const uint8_t* blocks = static_cast<const uint8_t*>(source.data) + (row + r) * row_bytes;
    for (int64_t t = 0; t < source.cols / kTileCols; ++t) {
      StoreTile(source.format, ReadTile(source.format, blocks, t), r, t, panel);
    }
  }
}

void UnpackRow(WeightFormat format, const uint8_t* panel, int64_t row_in_panel, int64_t cols,
               float* out) {
  if (IsQuantized(format)) {
    for (int64_t t = 0; t < cols / kTileCols; ++t) {
      UnpackTile(format, panel, row_in_panel, t, out + t * kTileCols);
    }
    return;
  }
  const int64_t group = format == WeightFormat::kBF16 ? 2 : 1;
  for (int64_t k = 0; k < cols; ++k) {
    const int64_t index = (k / group * kPanelRows + row_in_panel) * group + k % group;
    if (format == WeightFormat::kF32) {
      std::memcpy(out + k, panel + index * 4, 4);
    } else {
      const uint16_t bits = Read16(panel + index * 2);
      out[k] = format == WeightFormat::kF16 ? ToFloat(F16{bits}) : ToFloat(BF16{bits});
    }
  }
}

}  // namespace flashinfer::cpu
