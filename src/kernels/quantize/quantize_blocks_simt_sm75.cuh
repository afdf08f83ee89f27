// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back. A thread narrows 16 adjacent elements: an
// NVFP4 block, or half a block of the others, whose halves meet in a shuffle. Padding of the scales
// has threads of its own, which find no elements. Widening, a thread's elements lie apart, so that
// its neighbours' stores are adjacent. Bound by bytes where a GPU rounds to 4 bits itself,
// elsewhere by instructions too.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/quantize/quantize_blocks_spec.h"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/words.cuh"

namespace flashinfer::kernels::quantize_blocks_simt {

/// The largest value of a format: (1 + fraction / 2^23) · 2^exponent.
struct Largest {
  uint32_t fraction;
  int exponent;
};

template <QuantizeBlocksSpec kSpec>
struct Traits {
  static constexpr QuantizeBlocksSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kElements = kQuantizeBlocksElements;
  static constexpr int kAccesses = kElements / kVec;
  static constexpr bool kIsFp4 = kSpec.dtype_q == DType::kE2M1x2;
  static constexpr bool kIsNvFp4 = kSpec.block_size == 16;
  static constexpr int kPerByte = kIsFp4 ? 2 : 1;
  static constexpr int kWords = kElements / kPerByte / 4;
  static constexpr int kBlockShift = kIsNvFp4 ? 4 : 5;
  static constexpr int kBlockLanes = kSpec.block_size / kElements;
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kSpec.row_threads >= 2 && kSpec.row_threads <= 32 &&
                    (kSpec.row_threads & (kSpec.row_threads - 1)) == 0,
                "row_threads must be a power of two from 2 to 32");
  static_assert(kIsFp4 || kSpec.dtype_q == DType::kE4M3 || kSpec.dtype_q == DType::kE5M2,
                "dtype_q must be e4m3, e5m2 or e2m1x2");
  static_assert(kSpec.block_size == 32 || (kIsFp4 && kIsNvFp4),
                "block_size must be 32, or 16 of e2m1x2");
  static_assert(!kSpec.inverse || kSpec.q_bytes == (kVec > kPerByte ? kVec / kPerByte : 1),
                "q_bytes must hold the codes of vector_size elements");
  static constexpr Largest kLargest = kIsFp4                          ? Largest{0x400000, 2}  // 6
                                      : kSpec.dtype_q == DType::kE4M3 ? Largest{0x600000, 8}
                                                                      : Largest{0x600000, 15};
  using Floats = tile::Elements<kSpec.dtype, kVec>;
};

/// A thread's row, and where its piece begins.
struct Place {
  int64_t row;
  int32_t piece;  ///< column
  int32_t lane;   ///< of the row's threads
};

template <class T>
__device__ __forceinline__ Place PlaceOf(const QuantizeBlocksKernelParams& p) {
  const uint32_t rows = p.pieces.Divide(blockIdx.x);
  const uint32_t piece = blockIdx.x - rows * p.pieces.divisor;
  constexpr uint32_t kRowThreads = T::kS.row_threads;
  return {int64_t{rows} * QuantizeBlocksRows(T::kS) + threadIdx.x / kRowThreads,
          static_cast<int32_t>(piece) * QuantizeBlocksPiece(T::kS),
          static_cast<int32_t>(threadIdx.x % kRowThreads)};
}

__device__ __forceinline__ float GlobalScale(const QuantizeBlocksKernelParams& p) {
  return p.global_scale_data == nullptr ? p.global_scale : *p.global_scale_data;
}

/// 0 from hidden_size on, and in rows that there are not.
template <class T>
__device__ __forceinline__ void LoadFloats(const QuantizeBlocksKernelParams& p, int64_t row,
                                           int32_t column, float (&x)[T::kElements]) {
  const char* from =
      tile::At<T::kS.dtype>(static_cast<const void*>(p.x), row * p.x_stride + column);
  const int32_t left = row < p.num_rows ? p.hidden_size - column : 0;
  typename T::Floats access[T::kAccesses] = {};
#pragma unroll
  for (int i = 0; i < T::kAccesses; ++i) {
    if (i * T::kVec < left) access[i].Load(tile::At<T::kS.dtype>(from, i * T::kVec));
  }
#pragma unroll
  for (int i = 0; i < T::kAccesses; ++i) {
    float wide[T::kVec];
    access[i].Widen(wide);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[i * T::kVec + j] = wide[j];
  }
}

/// The largest finite |x| of the thread's block, the same in its lanes; infinity where the block
/// cannot be narrowed, as it holds NaN and its format has none.
template <class T>
__device__ __forceinline__ float Amax(const float (&x)[T::kElements]) {
  const float infinity = __uint_as_float(0x7f800000u);
  float amax = 0;
  float zero = 0;  // becomes NaN by what is not finite
#pragma unroll
  for (int i = 0; i < T::kElements; ++i) {
    amax = fmaxf(amax, fabsf(x[i]));
    zero = fmaf(x[i], 0.0f, zero);
  }
  if (zero != zero) {
    bool has_nan = false;
    amax = 0;
#pragma unroll
    for (int i = 0; i < T::kElements; ++i) {
      if (fabsf(x[i]) < infinity) amax = fmaxf(amax, fabsf(x[i]));
      has_nan = has_nan || x[i] != x[i];
    }
    if (T::kIsFp4 && has_nan) amax = infinity;
  }
  return tile::WarpMax<T::kBlockLanes>(amax);
}

/// What a block is narrowed with.
struct Scale {
  uint32_t code;
  float factor;  ///< 0: all of the block's codes are 0
};

/// x / 6, rounded once, of what an e4m3 can hold; beyond that as much as saturates it.
__device__ __forceinline__ float Sixth(float x) {
  constexpr float kSixth = 1.0f / 6.0f;
  const float bounded = x > 4096.0f ? 4096.0f : x;  // NaN stays
  const float quotient = bounded * kSixth;
  return fmaf(fmaf(quotient, -6.0f, bounded), kSixth, quotient);
}

__device__ __forceinline__ Scale NvFp4Scale(float amax, float global) {
  if (amax == __uint_as_float(0x7f800000u)) return {0x7fu, 0.0f};
  const uint32_t code = ptx::cvt_rn_satfinite_e4m3x2_f32(Sixth(global * amax), 0.0f) & 0xffu;
  return {code, code == 0 ? 0.0f : global / ptx::cvt_f32_e4m3x2(code).x};
}

/// 2^ceil(log2(amax / largest)), at least 2^-127. A carry out of amax's fraction says whether it
/// lies above the power of two.
template <class T>
__device__ __forceinline__ Scale MxScale(float amax) {
  if (T::kIsFp4 && amax == __uint_as_float(0x7f800000u)) return {0xffu, 0.0f};
  constexpr uint32_t kCarry = 0x7fffff - T::kLargest.fraction;
  const int code =
      max(static_cast<int>((__float_as_uint(amax) + kCarry) >> 23) - T::kLargest.exponent, 0);
  return {static_cast<uint32_t>(code), __uint_as_float(static_cast<uint32_t>(254 - code) << 23)};
}

template <class T>
__device__ __forceinline__ void NarrowCodes(const float (&x)[T::kElements], float factor,
                                            uint32_t (&words)[T::kWords]) {
  constexpr int kPerWord = T::kElements / T::kWords;
#pragma unroll
  for (int i = 0; i < T::kWords; ++i) {
    float part[kPerWord];
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) part[j] = x[i * kPerWord + j];
    if constexpr (T::kIsFp4) {
      const uint32_t codes = ptx::cvt_rn_satfinite_e2m1x8_f32(part, factor);
      words[i] = factor == 0 ? 0u : codes;
    } else {
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) part[j] *= factor;
      words[i] = tile::NarrowWord<T::kS.dtype_q>(part);
    }
  }
}

template <class T>
__device__ __forceinline__ void Narrow(const QuantizeBlocksKernelParams& p, const Place& place) {
  const int32_t column = place.piece + place.lane * T::kElements;
  const int32_t block = column >> T::kBlockShift;
  float x[T::kElements];
  LoadFloats<T>(p, place.row, column, x);
  const float amax = Amax<T>(x);
  Scale scale;
  if constexpr (T::kIsNvFp4) {
    scale = NvFp4Scale(amax, GlobalScale(p));
  } else {
    scale = MxScale<T>(amax);
  }
  const bool is_padding = place.row >= p.num_rows || column >= p.padded_size;
  if (!is_padding) {
    uint32_t words[T::kWords];
    NarrowCodes<T>(x, scale.factor, words);
    tile::StoreWords<T::kS.q_bytes>(p.q + place.row * p.q_stride + column / T::kPerByte,
                                    sizeof(words), words);
  }
  const bool is_first = place.lane % T::kBlockLanes == 0;
  if (is_first && place.row < p.padded_rows && block < p.padded_blocks) {
    p.scales[ScaleOffset(p.tile_rows, place.row, block, p.padded_blocks)] =
        is_padding ? uint8_t{0} : static_cast<uint8_t>(scale.code);
  }
}

/// What codes are multiplied with.
template <class T>
__device__ __forceinline__ float ScaleValue(uint32_t code, float global) {
  if constexpr (T::kIsNvFp4) return ptx::cvt_f32_e4m3x2(code).x / global;
  if (code == 0xffu) return __uint_as_float(0x7fc00000u);
  return __uint_as_float(code == 0 ? 0x00400000u : code << 23);  // 2^-127 is a subnormal
}

/// The codes of an access; `column` is the first one's.
template <class T>
__device__ __forceinline__ void WidenCodes(const ptx::Words<T::kS.q_bytes>& codes, int32_t column,
                                           float (&x)[T::kVec]) {
  if constexpr (T::kIsFp4) {
    const int first = T::kVec == 1 ? (column & 1) : 0;
#pragma unroll
    for (int i = 0; i < T::kVec; ++i) x[i] = ptx::E2m1BitsToF32(codes.w[0] >> ((i + first) * 4));
  } else {
    tile::Elements<T::kS.dtype_q, T::kVec> elements;
    elements.access[0] = codes;
    elements.Widen(x);
  }
}

template <class T>
__device__ __forceinline__ void Widen(const QuantizeBlocksKernelParams& p, const Place& place) {
  if (place.row >= p.num_rows) return;
  const float global = T::kIsNvFp4 ? GlobalScale(p) : 1.0f;
  const int32_t first = place.piece + place.lane * T::kVec;
  constexpr int kStep = T::kS.row_threads * T::kVec;
  ptx::Words<T::kS.q_bytes> codes[T::kAccesses];
  uint8_t scales[T::kAccesses];
#pragma unroll
  for (int i = 0; i < T::kAccesses; ++i) {
    const int32_t column = first + i * kStep;
    if (column >= p.hidden_size) break;
    codes[i] = ptx::ld<T::kS.q_bytes>(p.q + place.row * p.q_stride + column / T::kPerByte);
    scales[i] =
        p.scales[ScaleOffset(p.tile_rows, place.row, column >> T::kBlockShift, p.padded_blocks)];
  }
#pragma unroll
  for (int i = 0; i < T::kAccesses; ++i) {
    const int32_t column = first + i * kStep;
    if (column >= p.hidden_size) break;
    float x[T::kVec];
    WidenCodes<T>(codes[i], column, x);
    const float value = ScaleValue<T>(scales[i], global);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[j] *= value;
    typename T::Floats result;
    result.Narrow(x);
    result.Store(tile::At<T::kS.dtype>(p.x, place.row * p.x_stride + column));
  }
}

template <QuantizeBlocksSpec kSpec>
__device__ __forceinline__ void Run(const QuantizeBlocksKernelParams& p) {
  using T = Traits<kSpec>;
  const Place place = PlaceOf<T>(p);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if constexpr (kSpec.inverse) {
    Widen<T>(p, place);
  } else {
    Narrow<T>(p, place);
  }
}

}  // namespace flashinfer::kernels::quantize_blocks_simt
