// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: queries, keys and values to shared memory, in the type that is
// multiplied. What does not exist there is zeros, so that it adds nothing.
#pragma once

#include "kernels/attention/prefill_traits.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::prefill_mma {

/// Lanes of a row that is copied in units of 8 elements, a power of two.
constexpr int RowLanes(int columns) {
  int lanes = 1;
  while (lanes < 32 && lanes * 8 < columns) lanes *= 2;
  return lanes;
}

/// Sine and cosine of a number of turns, counted in 2^-64: whole turns drop out.
__device__ __forceinline__ void SinCosOfPhase(uint64_t phase, float& sine, float& cosine) {
  const int32_t top = static_cast<int32_t>((phase + 0x80000000u) >> 32);
  __sincosf(6.283185307f * 0x1p-32f * static_cast<float>(top), &sine, &cosine);
}

/// Elements at `column` and half a head behind it, rotated for a position. Columns are multiples
/// of kCount.
template <int kCount>
__device__ __forceinline__ void Rotate(const PrefillParams& p, int64_t position, int column,
                                       float (&x)[kCount], float (&y)[kCount]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    float sine, cosine;
    SinCosOfPhase(static_cast<uint64_t>(position) * p.turns[column + j], sine, cosine);
    const float rotated = x[j] * cosine - y[j] * sine;
    y[j] = y[j] * cosine + x[j] * sine;
    x[j] = rotated;
  }
}

/// kCount elements of global memory as f32, by accesses of at most kAccessBytes.
template <DType kDType, int kCount, int kAccessBytes>
__device__ __forceinline__ void LoadFloats(const char* from, float (&x)[kCount]) {
  constexpr int kSize = tile::SizeBytes(kDType);
  constexpr int kPart = kAccessBytes / kSize < 1        ? 1
                        : kAccessBytes / kSize < kCount ? kAccessBytes / kSize
                                                        : kCount;
#pragma unroll
  for (int i = 0; i < kCount; i += kPart) {
    tile::Elements<kDType, kPart> part;
    float values[kPart];
    part.Load(from + i * kSize);
    part.Widen(values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) x[i + j] = values[j];
  }
}

template <class T, int kCount>
__device__ __forceinline__ void StoreRounded(typename T::Element* to, const float (&x)[kCount]) {
  tile::Elements<T::kCompute, kCount> out;
  out.Narrow(x);
  out.Store(to);
}

/// The rest of x that its rounding leaves.
template <class T, int kCount>
__device__ __forceinline__ void SubtractRounded(float (&x)[kCount]) {
  tile::Elements<T::kCompute, kCount> rounded;
  float values[kCount];
  rounded.Narrow(x);
  rounded.Widen(values);
#pragma unroll
  for (int j = 0; j < kCount; ++j) x[j] -= values[j];
}

/// A factor of a row's scores, all of its own scales together; without a transform, to base 2.
template <class T>
__device__ __forceinline__ float ScaleOf(const PrefillParams& p, const Block& block, int head) {
  float scale = p.sm_scale;
  if (p.q_scales.data != nullptr) scale *= ValueOf(p.q_scales, head);
  if (p.k_scales.data != nullptr) scale *= ValueOf(p.k_scales, block.kv_head);
  return T::kTransforms ? scale : scale * tile::kLog2E;
}

/// The largest power of two up to |x|, for x of a row's largest size; 1 for what has none.
__device__ __forceinline__ float PowerBelow(float x) {
  const uint32_t exponent = __float_as_uint(x) & 0x7f800000u;
  return exponent == 0 || exponent == 0x7f800000u ? 1.0f : __uint_as_float(exponent);
}

template <class T, int kCount>
__device__ __forceinline__ void LoadQueryFloats(const char* q, int column, float (&x)[kCount]) {
  LoadFloats<T::kS.dtype_q, kCount, T::kS.q_access_bytes>(tile::At<T::kS.dtype_q>(q, column), x);
}

/// Elements of a query as the variant wants them.
template <class T, int kCount>
__device__ __forceinline__ void TransformQuery(const PrefillParams& p, const Block& block, Row row,
                                               int column, float (&x)[kCount]) {
  if constexpr (T::V::TransformsQuery()) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      x[j] = T::V::Query(ValuesOf<typename T::V>(p), x[j], {RowPositionOf(block, row), column + j});
    }
  }
}

/// Elements of a key as the variant wants them.
template <class T, int kCount>
__device__ __forceinline__ void TransformKey(const PrefillParams& p, const Block& block, int key,
                                             int column, float (&x)[kCount]) {
  if constexpr (T::V::TransformsKey()) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      x[j] = T::V::Key(ValuesOf<typename T::V>(p), x[j],
                       {block.piece.request, min(key, block.piece.kv_end - 1), block.request.kv_len,
                        block.kv_head, column + j});
    }
  }
}

/// A row's elements of one lane: kCount at `column`, and when rotating, those half a head behind.
template <int kCount>
struct QueryUnit {
  float x[kCount] = {};
  float y[kCount] = {};
};

/// Columns up to T::kQkColumns are written, zeros from the head's end on.
template <class T, int kCount>
__device__ __forceinline__ void StoreQuery(typename T::Element* row, int column, int end,
                                           const QueryUnit<kCount>& unit) {
  if constexpr (T::kS.rope) {
    // Beyond a half, a unit stands for two units behind the head's end.
    if (2 * column >= T::kQkColumns) return;
    StoreRounded<T>(row + (column < end ? column : 2 * column), unit.x);
    StoreRounded<T>(row + (column < end ? column + end : 2 * column + kCount), unit.y);
  } else {
    if (column < T::kQkColumns) StoreRounded<T>(row + column, unit.x);
  }
}

/// Queries of the block. Their scale goes to the scores, but for its sign, so that the largest
/// score stays the largest; f32 rows are brought to the range of f16 by a power of two.
template <class T>
__device__ __forceinline__ void LoadQuery(const PrefillParams& p, const Block& block,
                                          typename T::SharedStorage& shared) {
  constexpr int kCount = T::kS.rope ? 4 : 8;  // a half of a head is a multiple of 4
  constexpr int kLanes = RowLanes(T::kQkColumns);
  constexpr int kUnits = (T::kQkColumns + kLanes * 8 - 1) / (kLanes * 8);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int half = p.head_dim_qk / 2;
  const int end = T::kS.rope ? half : p.head_dim_qk;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < T::kRows;
       row += T::kThreads / kLanes) {
    const bool is_row = row < block.num_rows;
    const Row at = RowAt(p, block, is_row ? row : 0);
    const char* q = tile::At<T::kS.dtype_q>(
        p.q,
        (block.request.q_begin + int64_t{at.token}) * p.q_stride_token + at.head * p.q_stride_head);
    const float scale = ScaleOf<T>(p, block, at.head);
    const float sign = scale > 0 ? 1.0f : scale < 0 ? -1.0f : 0.0f;
    QueryUnit<kCount> units[kUnits];
    float largest = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int column = (u * kLanes + lane) * kCount;
      if (!is_row || column >= end) continue;
      LoadQueryFloats<T>(q, column, units[u].x);
      if constexpr (T::kS.rope) {
        LoadQueryFloats<T>(q, column + half, units[u].y);
        TransformQuery<T>(p, block, at, column + half, units[u].y);
      }
      TransformQuery<T>(p, block, at, column, units[u].x);
      if constexpr (T::kS.rope) {
        Rotate(p, block.request.kv_len - block.request.q_len + at.token, column, units[u].x,
               units[u].y);
      }
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        units[u].x[j] *= sign;
        units[u].y[j] *= sign;
        largest = fmaxf(largest, fmaxf(fabsf(units[u].x[j]), fabsf(units[u].y[j])));
      }
    }
    float power = 1;
    if constexpr (T::kQueryParts == 2) power = PowerBelow(tile::WarpMax<kLanes>(largest));
    if (lane == 0) shared.row_scales[row] = scale == 0 ? 1.0f : fabsf(scale) * power;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int column = (u * kLanes + lane) * kCount;
#pragma unroll
      for (int part = 0; part < T::kQueryParts; ++part) {
        if constexpr (T::kQueryParts == 2) {
#pragma unroll
          for (int j = 0; j < kCount; ++j) {
            if (part == 0) units[u].x[j] /= power, units[u].y[j] /= power;
          }
        }
        StoreQuery<T>(shared.in.q + (part * T::kRows + row) * T::kQkStride, column, end, units[u]);
        SubtractRounded<T>(units[u].x);
        SubtractRounded<T>(units[u].y);
      }
    }
  }
}

/// Queries that need nothing done, in the background.
template <class T>
__device__ __forceinline__ void CopyQuery(const PrefillParams& p, const Block& block,
                                          typename T::SharedStorage& shared) {
  constexpr int kLanes = RowLanes(T::kQkColumns);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll 2
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < T::kRows;
       row += T::kThreads / kLanes) {
    const bool is_row = row < block.num_rows;
    const Row at = RowAt(p, block, is_row ? row : 0);
    const char* q = tile::At<T::kS.dtype_q>(
        p.q,
        (block.request.q_begin + int64_t{at.token}) * p.q_stride_token + at.head * p.q_stride_head);
#pragma unroll
    for (int column = lane * 8; column < T::kQkColumns; column += kLanes * 8) {
      const bool is_there = is_row && column < p.head_dim_qk;
      ptx::cp_async_zfill(shared.in.q + row * T::kQkStride + column,
                          is_there ? tile::At<T::kS.dtype_q>(q, column) : q, is_there);
    }
  }
}

/// This thread's token of the tile at `begin`. Tokens behind the end are the last one: what it
/// holds is finite, and weights there are 0.
__device__ __forceinline__ int TokenAt(const Block& block, int begin) {
  return min(begin + static_cast<int>(threadIdx.x), block.piece.kv_end - 1);
}

/// Where a token is, of which it reads its page, or knows it.
template <class T, class PageAt>
__device__ __forceinline__ TokenRows RowsOf(const PrefillParams& p, const Block& block, int token,
                                            PageAt page_at) {
  int64_t page = 0;
  int64_t slot = block.request.page_begin + token;
  if (p.pages != nullptr) {
    const uint32_t index = p.page_size.Divide(static_cast<uint32_t>(token));
    slot = token - static_cast<int>(index * p.page_size.divisor);
    page = page_at(index);
  }
  return {tile::At<T::kS.dtype_kv>(p.k, block.kv_head * p.k_strides.head + page * p.k_strides.page +
                                            slot * p.k_strides.token),
          tile::At<T::kS.dtype_kv>(p.v, block.kv_head * p.v_strides.head + block.vo_begin +
                                            page * p.v_strides.page + slot * p.v_strides.token)};
}

/// The index-th page of the request.
__device__ __forceinline__ int32_t PageAt(const PrefillParams& p, const Block& block,
                                          uint32_t index) {
  return p.pages[(block.request.page_begin + int64_t{index}) * p.pages_stride];
}

/// Where this thread's token of the tile at `begin` is.
template <class T>
__device__ __forceinline__ TokenRows FindToken(const PrefillParams& p, const Block& block,
                                               int begin) {
  return RowsOf<T>(p, block, TokenAt(block, begin),
                   [&](uint32_t index) { return PageAt(p, block, index); });
}

/// The page of that token, 0 where there are none.
__device__ __forceinline__ int32_t FindPageOfToken(const PrefillParams& p, const Block& block,
                                                   int begin) {
  if (p.pages == nullptr) return 0;
  const auto token = static_cast<uint32_t>(TokenAt(block, begin));
  return PageAt(p, block, p.page_size.Divide(token));
}

/// The same with its page, which was found before.
template <class T>
__device__ __forceinline__ TokenRows FindToken(const PrefillParams& p, const Block& block,
                                               int begin, int32_t page) {
  return RowsOf<T>(p, block, TokenAt(block, begin), [page](uint32_t) { return page; });
}

/// Rows of a tile as they are, or widened and rounded, into kColumns columns, of which
/// num_columns exist. Of a thread's accesses, those of one of kParts parts.
template <class T, int kColumns, const char* TokenRows::*kRow, int kParts = 1>
__device__ __forceinline__ void CopyTileRows(const TokenRows* tokens, int num_columns,
                                             typename T::Element* to, int part = 0) {
  constexpr int kLanes = RowLanes(kColumns);
  constexpr int kRowsAtOnce = T::kThreads / kLanes;
  constexpr int kTurns = (T::kKvTile + kRowsAtOnce - 1) / kRowsAtOnce;
  constexpr int kStride = kColumns + T::kQkStride - T::kQkColumns;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first_row = static_cast<int>(threadIdx.x) / kLanes;
  to += first_row * kStride + lane * 8;
#pragma unroll
  for (int c = 0; c < kColumns; c += kLanes * 8) {
    if (c + lane * 8 >= kColumns) break;
    const bool is_there = c + lane * 8 < num_columns;
    const int column = is_there ? c + lane * 8 : 0;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn * kParts / kTurns != part) continue;
      const int row = turn * kRowsAtOnce;
      if (T::kKvTile % kRowsAtOnce != 0 && row + first_row >= T::kKvTile) break;
      const char* from = tile::At<T::kS.dtype_kv>(tokens[row + first_row].*kRow, column);
      if constexpr (T::kCopies) {
        ptx::cp_async_zfill(to + row * kStride + c, from, is_there);
      } else {
        float x[8] = {};
        if (is_there) LoadFloats<T::kS.dtype_kv, 8, T::kS.kv_access_bytes>(from, x);
        StoreRounded<T>(to + row * kStride + c, x);
      }
    }
  }
}

/// Keys of a tile as the variant wants them.
template <class T>
__device__ __forceinline__ void CopyTransformedKeys(const PrefillParams& p, const Block& block,
                                                    const TokenRows* tokens, int begin,
                                                    typename T::Element* to) {
  constexpr int kUnit = 8;
  constexpr int kUnits = T::kQkColumns / kUnit;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < T::kKvTile * kUnits; i += T::kThreads) {
    const int row = i / kUnits;
    const int column = i % kUnits * kUnit;
    float x[kUnit] = {};
    if (column < p.head_dim_qk) {
      LoadFloats<T::kS.dtype_kv, kUnit, T::kS.kv_access_bytes>(
          tile::At<T::kS.dtype_kv>(tokens[row].k, column), x);
      TransformKey<T>(p, block, begin + row, column, x);
    }
    StoreRounded<T>(to + row * T::kQkStride + column, x);
  }
}

/// Keys of a tile, rotated for their positions.
template <class T>
__device__ __forceinline__ void CopyRotatedKeys(const PrefillParams& p, const Block& block,
                                                const TokenRows* tokens, int begin,
                                                typename T::Element* to) {
  constexpr int kUnit = 4;
  constexpr int kUnits = T::kQkColumns / 2 / kUnit;
  const int half = p.head_dim_qk / 2;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < T::kKvTile * kUnits; i += T::kThreads) {
    const int row = i / kUnits;
    const int column = i % kUnits * kUnit;
    typename T::Element* at = to + row * T::kQkStride;
    float x[kUnit] = {};
    float y[kUnit] = {};
    if (column >= half) {  // the columns that head_dim_qk was rounded up by
      StoreRounded<T>(at + 2 * column, x);
      StoreRounded<T>(at + 2 * column + kUnit, x);
      continue;
    }
    const char* from = tile::At<T::kS.dtype_kv>(tokens[row].k, column);
    LoadFloats<T::kS.dtype_kv, kUnit, T::kS.kv_access_bytes>(from, x);
    LoadFloats<T::kS.dtype_kv, kUnit, T::kS.kv_access_bytes>(tile::At<T::kS.dtype_kv>(from, half),
                                                             y);
    TransformKey<T>(p, block, begin + row, column, x);
    TransformKey<T>(p, block, begin + row, column + half, y);
    Rotate(p, begin + row, column, x, y);
    StoreRounded<T>(at + column, x);
    StoreRounded<T>(at + column + half, y);
  }
}

/// Keys from `begin` on, widened, rotated or as the variant wants them.
template <class T>
__device__ __forceinline__ void ConvertKeys(const PrefillParams& p, const Block& block,
                                            const TokenRows* tokens, int begin,
                                            typename T::Element* to) {
  if constexpr (T::kS.rope) {
    CopyRotatedKeys<T>(p, block, tokens, begin, to);
  } else if constexpr (T::V::TransformsKey()) {
    CopyTransformedKeys<T>(p, block, tokens, begin, to);
  } else {
    CopyTileRows<T, T::kQkColumns, &TokenRows::k>(tokens, p.head_dim_qk, to);
  }
}

}  // namespace flashinfer::kernels::prefill_mma
