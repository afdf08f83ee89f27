// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores: 16 tokens of a warp. Keys times queries, exponentials, values times
// weights; tokens, and then columns of the head, are the rows of A, rows of queries the columns of
// B, so that a group of up to 8 heads wastes nothing.
#pragma once

#include "kernels/attention/decode_mma_traits.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/movmatrix.cuh"
#include "kernels/tile/reduce.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::decode_mma {

/// The queries of a tile as B, and what their scores are multiplied by.
template <class T>
struct Query {
  uint32_t b[T::kRowBlocks][T::kQkSteps][2];
  float scale[T::kRowBlocks][2];  ///< of the rows that the lane has scores of
};

/// Two elements of 8 bits, in the low half, as two of f16.
template <class T>
__device__ __forceinline__ uint32_t Widen(uint32_t pair) {
  if constexpr (T::kS.dtype_kv == DType::kE4M3) return ptx::cvt_f16x2_e4m3x2(pair);
  if constexpr (T::kS.dtype_kv == DType::kE5M2) return ptx::cvt_f16x2_e5m2x2(pair);
  return ptx::cvt_f16x2_s8x2(pair);
}

/// The two elements of a row of queries from `column` on; zeros where there is none.
template <class T, bool kIsPacked>
__device__ __forceinline__ uint32_t QueryPair(const uint16_t* row, bool is_there, int column) {
  if (!is_there || column >= T::kS.head_dim_qk) return 0;
  const uint16_t* at = row + column;
  if constexpr (kIsPacked) return *reinterpret_cast<const uint32_t*>(at);
  return at[0] | (static_cast<uint32_t>(at[1]) << 16);
}

/// Keys of 8 bits are widened four neighbours at a time: pairs 2 pair and 2 pair + 1 of a step, so
/// queries come in the same order.
template <class T, bool kIsPacked>
__device__ __forceinline__ void LoadRow(const uint16_t* row, bool is_there, const Lane& l,
                                        uint32_t (&b)[T::kQkSteps][2]) {
#pragma unroll
  for (int step = 0; step < T::kQkSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = step * 16 + (T::kIsNarrow ? l.pair * 4 + half * 2 : l.pair * 2 + half * 8);
      b[step][half] = QueryPair<T, kIsPacked>(row, is_there, column);
    }
  }
}

/// Queries of bf16 as f16, each row divided by a power of two that brings its largest element to
/// between 1 and 2: what f16 cannot hold then is below 2^-24 of that. Returns the power.
template <class T>
__device__ __forceinline__ float ToF16(uint32_t (&b)[T::kQkSteps][2]) {
  float largest = 0;
#pragma unroll
  for (int step = 0; step < T::kQkSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const ptx::Float2 x = ptx::cvt_f32_bf16x2(b[step][half]);
      largest = fmaxf(largest, fmaxf(fabsf(x.x), fabsf(x.y)));
    }
  }
#pragma unroll
  for (int mask = 1; mask < 4; mask *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(tile::kFullWarp, largest, mask));
  }
  // Between 2^-126 and 2^126, so that its inverse is a number.
  const uint32_t exponent = min(max(__float_as_uint(largest) >> 23, 1u), 253u);
  const float inverse = __uint_as_float((254u - exponent) << 23);
#pragma unroll
  for (int step = 0; step < T::kQkSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const ptx::Float2 x = ptx::cvt_f32_bf16x2(b[step][half]);
      b[step][half] = ptx::cvt_rn_f16x2_f32(x.x * inverse, x.y * inverse);
    }
  }
  return __uint_as_float(exponent << 23);
}

/// Scores become base-2 logits by it, or what is transformed. `power` is of the row that the lane
/// loaded.
template <class T>
__device__ __forceinline__ void SetScales(const DecodeParams& p, const Tile& tile, const Lane& l,
                                          const float (&power)[T::kRowBlocks], Query<T>& query) {
  float scale = p.sm_scale;
  if (p.k_scales.data != nullptr) scale *= ValueOf(p.k_scales, tile.kv_head);
  if constexpr (!T::Transforms()) scale *= tile::kLog2E;
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = l.pair * 2 + i;
      query.scale[r][i] = scale * __shfl_sync(tile::kFullWarp, power[r], row * 4);
      if (p.q_scales.data == nullptr) continue;
      query.scale[r][i] *=
          ValueOf(p.q_scales, tile.first_row + min(r * 8 + row, tile.num_rows - 1));
    }
  }
}

template <class T>
__device__ __forceinline__ void LoadQuery(const DecodeParams& p, const Tile& tile, const Lane& l,
                                          int request, Query<T>& query) {
  float power[T::kRowBlocks];
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
    const int row = r * 8 + l.group;
    const bool is_there = row < tile.num_rows;
    const uint16_t* at = static_cast<const uint16_t*>(p.q) + request * p.q_stride_request +
                         (tile.first_row + row) * p.q_stride_head;
    if (p.is_packed != 0) {
      LoadRow<T, true>(at, is_there, l, query.b[r]);
    } else {
      LoadRow<T, false>(at, is_there, l, query.b[r]);
    }
    power[r] = 1;
    if constexpr (T::kMma != T::kS.dtype_q) power[r] = ToF16<T>(query.b[r]);
  }
  SetScales<T>(p, tile, l, power, query);
}

/// Scores of 16 tokens: s[r][i] is token group + i / 2 · 8, row 8 r + 2 pair + i % 2.
template <class T>
__device__ __forceinline__ void Score(const char* keys, const Lane& l, const Query<T>& query,
                                      float (&s)[T::kRowBlocks][4]) {
  const int row = l.lane % 16;
  const int swizzle = (l.lane / 16 * 16) ^ DecodeMmaSwizzle(T::kQkPitch, row);
  const char* at = keys + row * T::kQkPitch;
  float odd[T::kRowBlocks][4] = {};  // two sums: mma waits for the one before
  const auto multiply = [&](int step, const uint32_t(&a)[4]) {
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r) {
      ptx::mma_m16n8k16<T::kMma>(step % 2 == 0 ? s[r] : odd[r], a, query.b[r][step]);
    }
  };
  if constexpr (T::kIsNarrow) {
#pragma unroll
    for (int step = 0; step < T::kQkSteps; step += 2) {
      uint32_t x[4];  // tokens 0 to 7 and 8 to 15 of a step, then of the next
      ptx::ldmatrix(x, at + ((step * 16) ^ swizzle));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (step + i >= T::kQkSteps) break;
        const uint32_t a[4] = {Widen<T>(x[2 * i]), Widen<T>(x[2 * i + 1]), Widen<T>(x[2 * i] >> 16),
                               Widen<T>(x[2 * i + 1] >> 16)};
        multiply(step + i, a);
      }
    }
  } else {
#pragma unroll
    for (int step = 0; step < T::kQkSteps; ++step) {
      uint32_t a[4];
      ptx::ldmatrix(a, at + ((step * 32) ^ swizzle));
      multiply(step, a);
    }
  }
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[r][i] += odd[r][i];
  }
}

/// A warp's tokens of a stage.
struct StageKeys {
  const Tile& tile;
  const DecodePiece& piece;
  int count;
};

/// A natural logit as the variant wants it.
template <class T>
__device__ __forceinline__ float VariantScore(const DecodeParams& p, const StageKeys& keys, int row,
                                              int token, float logit) {
  if (token >= keys.count || row >= keys.tile.num_rows) return Unseen<typename T::V>();
  const auto& values = ValuesOf<typename T::V>(p);
  const LogitPosition at{
      RowPositionOf<T>(p, keys.tile, keys.piece.request, keys.tile.first_row + row),
      keys.piece.kv_end - keys.count + token};
  const float score = T::V::Logit(values, logit, at);
  return T::V::Sees(values, at) ? score : Unseen<typename T::V>();
}

/// Scores to base-2 logits; -inf for tokens behind the piece's end.
template <class T>
__device__ __forceinline__ void Mask(const DecodeParams& p, const Lane& l, const StageKeys& keys,
                                     const Query<T>& query, float (&s)[T::kRowBlocks][4]) {
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float x = s[r][i] * query.scale[r][i % 2];
      if constexpr (T::kS.soft_cap) x = tile::SoftCap(x, p.soft_cap);
      const int token = l.group + i / 2 * 8;
      if constexpr (T::V::IsOn()) {
        s[r][i] = VariantScore<T>(p, keys, r * 8 + l.pair * 2 + i % 2, token, x);
      } else {
        if constexpr (T::kS.soft_cap) x *= tile::kLog2E;
        s[r][i] = token < keys.count ? x : tile::kNegativeInfinity;
      }
    }
  }
}

/// Logits may exceed the maximum by so much before it is taken anew: weights up to 2^8 lose
/// nothing, and the warp seldom has to agree on a maximum and rescale its outputs.
inline constexpr float kMaximumLag = 8.0f;

template <class T>
__device__ __forceinline__ void RaiseMaximum(const float (&s)[T::kRowBlocks][4], State<T>& state) {
  if constexpr (!T::V::UsesSoftmax()) return;
  bool is_above = false;
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) is_above = is_above || s[r][i] > state.max[r][i % 2] + kMaximumLag;
  }
  if (!__any_sync(tile::kFullWarp, is_above)) return;
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float max = fmaxf(state.max[r][i], fmaxf(s[r][i], s[r][i + 2]));
#pragma unroll
      for (int mask = 4; mask < 32; mask *= 2) {
        max = fmaxf(max, __shfl_xor_sync(tile::kFullWarp, max, mask));
      }
      const float factor = tile::RescaleFactor(state.max[r][i], max);
      state.max[r][i] = max;
      state.sum[r][i] *= factor;
#pragma unroll
      for (int tile = 0; tile < T::kVoTiles; ++tile) {
        state.o[r][tile][i] *= factor;
        state.o[r][tile][i + 2] *= factor;
      }
    }
  }
}

/// Weights of 16 tokens as B: exponentials of the logits, transposed.
template <class T>
__device__ __forceinline__ void Weigh(const float (&s)[T::kRowBlocks][4], State<T>& state,
                                      uint32_t (&b)[T::kRowBlocks][2]) {
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] = s[r][i];
      if constexpr (T::V::UsesSoftmax()) w[i] = tile::Exp2Guarded(w[i], state.max[r][i % 2]);
      state.sum[r][i % 2] += w[i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      b[r][half] = ptx::movmatrix_trans(tile::NarrowWord<T::kMma>(w + 2 * half));
    }
  }
}

template <class T>
__device__ __forceinline__ void AddValues(const char* values, const Lane& l,
                                          const uint32_t (&b)[T::kRowBlocks][2], State<T>& state) {
  const int row = l.lane / 16 * 8 + l.lane % 8;
  const int swizzle = (l.lane / 8 % 2 * 16) ^ DecodeMmaSwizzle(T::kVoPitch, row);
  const char* at = values + row * T::kVoPitch;
  const auto multiply = [&](int tile, const uint32_t(&a)[4]) {
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r) {
      ptx::mma_m16n8k16<T::kMma>(state.o[r][tile], a, b[r]);
    }
  };
  if constexpr (T::kIsNarrow) {
#pragma unroll
    for (int tile = 0; tile < T::kVoTiles; tile += 2) {
      uint32_t x[4];  // tokens 0 to 7 of a tile and of the next, then tokens 8 to 15
      ptx::ldmatrix<4, ptx::Transposed::kYes>(x, at + ((tile * 16) ^ swizzle));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (tile + i >= T::kVoTiles) break;
        // Two columns of two tokens: a column's tokens beside each other.
        const uint32_t low = __byte_perm(x[i], 0, 0x3120);
        const uint32_t high = __byte_perm(x[i + 2], 0, 0x3120);
        const uint32_t a[4] = {Widen<T>(low), Widen<T>(low >> 16), Widen<T>(high),
                               Widen<T>(high >> 16)};
        multiply(tile + i, a);
      }
    }
  } else {
#pragma unroll
    for (int tile = 0; tile < T::kVoTiles; ++tile) {
      uint32_t a[4];
      ptx::ldmatrix<4, ptx::Transposed::kYes>(a, at + ((tile * 32) ^ swizzle));
      multiply(tile, a);
    }
  }
}

}  // namespace flashinfer::kernels::decode_mma
