// SPDX-License-Identifier: Apache-2.0
// Repacking of GGUF blocks for CUDA devices.
#include "backends/cuda/linear_pack.h"

#include <cstring>

#include "backends/cpu/linear_pack.h"

namespace flashinfer::cuda {
namespace {

using kernels::WeightPlaneBytes;

/// A bit (of `bits` from each quant's fifth on) of 16 quants: bit bits · j of byte i is of quant
/// 4j + i.
void StoreHighBits(const uint8_t* quants, int bits, int shift, uint8_t* out) {
  for (int k = 0; k < 16; ++k) {
    out[k % 4] = static_cast<uint8_t>(out[k % 4] | quants[k] >> 4 << (bits * (k / 4) + shift));
  }
}

void StoreQuants(WeightFormat format, const cpu::RowTile& tile, uint8_t* quants, uint8_t* extra) {
  const uint8_t* q = tile.q.data();
  if (format == WeightFormat::kQ8_0) {
    for (int i = 0; i < 16; ++i) {
      quants[i] = q[i] ^ 0x80;  // tiles hold them with an offset
      extra[i] = q[16 + i] ^ 0x80;
    }
    return;
  }
  for (int i = 0; i < 16; ++i) {
    quants[i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] & 15) << 4);
  }
  if (kernels::HasFifthBits(format)) {
    std::memset(extra, 0, 4);
    StoreHighBits(q, 1, 0, extra);
    StoreHighBits(q + 16, 1, 4, extra);
  } else if (format == WeightFormat::kQ6_K) {
    std::memset(extra, 0, 8);
    StoreHighBits(q, 2, 0, extra);
    StoreHighBits(q + 16, 2, 0, extra + 4);
  }
}

void StoreScales(WeightFormat format, const cpu::RowTile& tile, uint8_t* scales, uint8_t* supers) {
  const WeightPlaneBytes bytes = kernels::PlaneBytesOf(format);
  const std::array<uint16_t, 2> halves{tile.d, tile.m};
  const bool has_bytes = kernels::HasSupers(format) || format == WeightFormat::kMXFP4;
  std::memcpy(scales,
              has_bytes ? static_cast<const void*>(tile.scales.data())
                        : static_cast<const void*>(halves.data()),
              static_cast<size_t>(bytes.plane[2]));
  if (supers != nullptr) std::memcpy(supers, halves.data(), static_cast<size_t>(bytes.plane[3]));
}

}  // namespace

void PackPlanes(const WeightView& source, int64_t begin, int64_t end,
                const std::array<uint8_t*, kernels::kNumWeightPlanes>& planes) {
  const WeightFormat format = source.format;
  const int64_t row_bytes = source.cols / BlockSize(format) * BlockBytes(format);
  const int64_t units = kernels::UnitsOf(format, source.cols);
  const WeightPlaneBytes bytes = kernels::PlaneBytesOf(format);
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* from = static_cast<const uint8_t*>(source.data) + row * row_bytes;
    int64_t at = (row - begin) * units;
    if (kernels::IsPlain(format)) {
      uint8_t* to = planes[0] + at * 16;
      std::memcpy(to, from, static_cast<size_t>(row_bytes));
      std::memset(to + row_bytes, 0, static_cast<size_t>(units * 16 - row_bytes));
      continue;
    }
    for (int64_t unit = 0; unit < units; ++unit, ++at) {
      const cpu::RowTile tile = cpu::ReadTile(format, from, unit);
      StoreQuants(format, tile, planes[0] + at * bytes.plane[0], planes[1] + at * bytes.plane[1]);
      const bool has_super = kernels::HasSupers(format) && unit % kernels::kUnitsPerSuper == 0;
      StoreScales(format, tile, planes[2] + at * bytes.plane[2],
                  has_super ? planes[3] + at / kernels::kUnitsPerSuper * bytes.plane[3] : nullptr);
    }
  }
}

}  // namespace flashinfer::cuda
