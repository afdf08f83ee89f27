// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back, of rows. Bound by memory.
#include "backends/cpu/quantize_blocks.h"
#include "backends/cpu/simd/quantize_store.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;
constexpr uint8_t kE8M0Nan = 0xff;
constexpr uint8_t kE4M3Nan = 0x7f;

/// 2^ceil(log2(amax / largest)) as E8M0, clamped to its smallest. With largest = (1 + fraction) ·
/// 2^exponent, a carry out of amax's fraction says whether it lies above the power of two.
template <uint32_t kFraction, int kExponent>
inline uint8_t RoundedUpScale(float amax) {
  constexpr uint32_t kCarry = 0x7fffff - kFraction;
  const int code =
      static_cast<int>((__builtin_bit_cast(uint32_t, amax) + kCarry) >> 23) - kExponent;
  return static_cast<uint8_t>(code > 0 ? code : 0);
}

/// 1 / 2^(code - 127), exact.
inline float InverseOf(uint8_t code) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(254 - code) << 23);
}

inline float WidenE8M0(uint8_t code) {
  if (code == kE8M0Nan) return __builtin_nanf("");
  if (code == 0) return __builtin_bit_cast(float, 0x00400000u);  // 2^-127, a subnormal
  return __builtin_bit_cast(float, static_cast<uint32_t>(code) << 23);
}

inline uint8_t NarrowE4M3(float x) { return FromFloat<E4M3>(x).bits; }
inline float WidenE4M3(uint8_t bits) { return ToFloat(E4M3{bits}); }

template <class Q, uint32_t kFraction, int kExponent>
struct MxFp8 {
  static constexpr int kBlock = 32;
  static constexpr int kPerByte = 1;
  static constexpr bool kKeepsNan = true;
  static uint8_t ScaleOf(float amax, float) { return RoundedUpScale<kFraction, kExponent>(amax); }
  static float FactorOf(uint8_t scale, float) { return InverseOf(scale); }
  static float ValueOf(uint8_t scale, float) { return WidenE8M0(scale); }
  static F32 LoadCodes(const uint8_t* q) { return Load(reinterpret_cast<const Q*>(q)); }
  static void StoreCodes(uint8_t* q, F32 v) { Store(reinterpret_cast<Q*>(q), v); }
};

struct MxFp4 {
  static constexpr int kBlock = 32;
  static constexpr int kPerByte = 2;
  static constexpr bool kKeepsNan = false;
  static constexpr uint8_t kNan = kE8M0Nan;
  static uint8_t ScaleOf(float amax, float) { return RoundedUpScale<0x400000, 2>(amax); }
  static float FactorOf(uint8_t scale, float) { return InverseOf(scale); }
  static float ValueOf(uint8_t scale, float) { return WidenE8M0(scale); }
  static F32 LoadCodes(const uint8_t* q) { return LoadNibbles(q); }
  static void StoreCodes(uint8_t* q, F32 v) { StoreNibbles(q, v); }
};

struct NvFp4 {
  static constexpr int kBlock = 16;
  static constexpr int kPerByte = 2;
  static constexpr bool kKeepsNan = false;
  static constexpr uint8_t kNan = kE4M3Nan;
  static uint8_t ScaleOf(float amax, float global) { return NarrowE4M3(global * amax / 6.0f); }
  /// 0 where the scale is.
  static float FactorOf(uint8_t scale, float global) {
    return scale == 0 ? 0.0f : global / WidenE4M3(scale);
  }
  static float ValueOf(uint8_t scale, float global) { return WidenE4M3(scale) / global; }
  static F32 LoadCodes(const uint8_t* q) { return LoadNibbles(q); }
  static void StoreCodes(uint8_t* q, F32 v) { StoreNibbles(q, v); }
};

/// The vectors of one block.
template <int kBlock>
struct Block {
  static constexpr int kVectors = kBlock / kWidth;
  F32 v[kVectors];
};

/// Elements from `size` on are 0.
template <int kBlock, class T>
inline Block<kBlock> LoadBlock(const T* x, int64_t size) {
  Block<kBlock> block;
  for (int i = 0; i < Block<kBlock>::kVectors; ++i) {
    const int64_t left = size - i * kWidth;
    const int n = left >= kWidth ? kWidth : left > 0 ? static_cast<int>(left) : 0;
    block.v[i] = Load(x + i * kWidth, n);
  }
  return block;
}

template <int kBlock>
inline float AmaxOf(const Block<kBlock>& block) {
  const F32 zero = F32::Set(0.0f);
  const F32 infinity = F32::Set(__builtin_inff());
  F32 largest = zero;
  for (const F32& v : block.v) largest = Max(largest, SelectLess(Abs(v), infinity, Abs(v), zero));
  return MaxLane(largest);
}

template <int kBlock>
inline bool HasNan(const Block<kBlock>& block) {
  F32 nan = F32::Set(0.0f);
  for (const F32& v : block.v) nan = SelectNan(v, nan);
  const float sum = Sum(nan);
  return !(sum == sum);
}

/// Writes a block and returns its scale.
template <class Format, class T>
inline uint8_t NarrowBlock(const T* x, int64_t size, uint8_t* q, float global) {
  const Block<Format::kBlock> block = LoadBlock<Format::kBlock>(x, size);
  uint8_t scale = Format::ScaleOf(AmaxOf(block), global);
  float factor = Format::FactorOf(scale, global);
  if constexpr (!Format::kKeepsNan) {
    if (HasNan(block)) {
      scale = Format::kNan;
      factor = 0.0f;
    }
  }
  for (int i = 0; i < Block<Format::kBlock>::kVectors; ++i) {
    uint8_t* at = q + i * kWidth / Format::kPerByte;
    // Not a product: infinite elements times 0 would be NaN.
    Format::StoreCodes(at, factor == 0.0f ? F32::Set(0.0f) : block.v[i] * F32::Set(factor));
  }
  return scale;
}

template <class Format, class T>
inline void WidenBlock(const uint8_t* q, T* x, int64_t size, float value) {
  const F32 factor = F32::Set(value);
  for (int i = 0; i < Block<Format::kBlock>::kVectors; ++i) {
    const int64_t left = size - i * kWidth;
    if (left <= 0) return;
    const F32 codes = Format::LoadCodes(q + i * kWidth / Format::kPerByte);
    Store(x + i * kWidth, codes * factor, left >= kWidth ? kWidth : static_cast<int>(left));
  }
}

template <class Format, class T>
void Rows(const QuantizeBlocksParams& p, int64_t begin, int64_t end) {
  const float global = p.global_scale_data == nullptr ? p.global_scale : *p.global_scale_data;
  const int64_t num_blocks = p.padded_size / Format::kBlock;
  const int64_t padded_blocks =
      p.scale_layout == ScaleLayout::kLinear ? num_blocks : (num_blocks + 3) / 4 * 4;
  for (int64_t row = begin; row < end; ++row) {
    T* x = static_cast<T*>(p.x) + row * p.x_stride;
    uint8_t* q = p.q + row * p.q_stride;
    for (int64_t k = 0; k < num_blocks; ++k) {
      uint8_t& scale = p.scales[ScaleOffset(p.scale_layout, row, k, padded_blocks)];
      const int64_t first = k * Format::kBlock;
      uint8_t* codes = q + first / Format::kPerByte;
      if (p.inverse) {
        WidenBlock<Format>(codes, x + first, p.hidden_size - first, Format::ValueOf(scale, global));
      } else {
        scale = NarrowBlock<Format>(x + first, p.hidden_size - first, codes, global);
      }
    }
  }
}

template <class Format>
void RowsOf(const QuantizeBlocksParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return Rows<Format, float>(p, begin, end);
  if (p.dtype == DType::kF16) return Rows<Format, F16>(p, begin, end);
  Rows<Format, BF16>(p, begin, end);
}

}  // namespace

void BlockRows(const QuantizeBlocksParams& p, int64_t begin, int64_t end) {
  switch (p.format) {
    case BlockFormat::kMxFp8E4M3:
      return RowsOf<MxFp8<E4M3, 0x600000, 8>>(p, begin, end);  // 448 = 1.75 · 2^8
    case BlockFormat::kMxFp8E5M2:
      return RowsOf<MxFp8<E5M2, 0x600000, 15>>(p, begin, end);  // 57344 = 1.75 · 2^15
    case BlockFormat::kMxFp4:
      return RowsOf<MxFp4>(p, begin, end);  // 6 = 1.5 · 2^2
    case BlockFormat::kNvFp4:
      return RowsOf<NvFp4>(p, begin, end);
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
