// SPDX-License-Identifier: Apache-2.0
// AMX's tiles in plain C++, in place of the intrinsics: for testing kernels on other machines.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace flashinfer::test {

struct EmulatedTiles {
  struct Shapes {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  Shapes shapes;
  uint8_t data[8][16][64];

  void Configure(const void* from) {
    std::memcpy(&shapes, from, sizeof(shapes));
    std::memset(data, 0, sizeof(data));
  }
  void Zero(int tile) { std::memset(data[tile], 0, sizeof(data[tile])); }
  void Load(int tile, const void* from, int64_t stride) {
    Zero(tile);
    for (int row = 0; row < shapes.rows[tile]; ++row) {
      std::memcpy(data[tile][row], static_cast<const char*>(from) + row * stride,
                  shapes.row_bytes[tile]);
    }
  }
  void Store(int tile, void* to, int64_t stride) const {
    for (int row = 0; row < shapes.rows[tile]; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, data[tile][row], shapes.row_bytes[tile]);
    }
  }
  /// sums += a · b over pairs of bf16.
  void MultiplyPairs(int sums, int a, int b) {
    for (int row = 0; row < shapes.rows[sums]; ++row) {
      for (int pair = 0; pair < shapes.row_bytes[a] / 4; ++pair) {
        for (int col = 0; col < shapes.row_bytes[sums] / 4; ++col) {
          float sum = 0;
          std::memcpy(&sum, &data[sums][row][4 * col], 4);
          for (int half = 0; half < 2; ++half) {
            sum += Element(data[a][row], 2 * pair + half) * Element(data[b][pair], 2 * col + half);
          }
          std::memcpy(&data[sums][row][4 * col], &sum, 4);
        }
      }
    }
  }

 private:
  static float Element(const uint8_t* row, int i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, row + 2 * i, 2);
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};

inline EmulatedTiles& Tiles() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

}  // namespace flashinfer::test

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(shapes) ::flashinfer::test::Tiles().Configure(shapes)
#define _tile_release() static_cast<void>(0)
#define _tile_zero(tile) ::flashinfer::test::Tiles().Zero(tile)
#define _tile_loadd(tile, from, stride) ::flashinfer::test::Tiles().Load(tile, from, stride)
#define _tile_stored(tile, to, stride) ::flashinfer::test::Tiles().Store(tile, to, stride)
#define _tile_dpbf16ps(sums, a, b) ::flashinfer::test::Tiles().MultiplyPairs(sums, a, b)
