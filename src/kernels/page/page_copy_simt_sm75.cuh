// SPDX-License-Identifier: Apache-2.0
// Copies rows to their slots of a paged cache, or back. A block takes a few tokens: its first
// threads look up their pages while all threads' loads are on their way (appending), then every
// thread moves the same columns of each token. Bound by bytes.
#pragma once

#include "kernels/page/page_copy_spec.h"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::page_copy_simt {

template <PageCopySpec kSpec>
struct Traits {
  static constexpr PageCopySpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kTokens = kSpec.tokens_tile;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static_assert(kVec >= 1 && kVec <= 16 && (kVec & (kVec - 1)) == 0,
                "vector_size must be a power of two up to 16");
  static_assert(kTokens >= 1 && kTokens <= 8, "tokens_tile must be 1 to 8");
  static constexpr DType kFrom = kSpec.gathers ? kSpec.dtype_kv : kSpec.dtype;
  static constexpr DType kTo = kSpec.gathers ? kSpec.dtype : kSpec.dtype_kv;
  using From = tile::Elements<kFrom, kVec>;
  using To = tile::Elements<kTo, kVec>;
  static constexpr bool kIsScaled =
      tile::SizeBytes(kSpec.dtype_kv) == 1 && kSpec.dtype != kSpec.dtype_kv;
};

struct Slot {
  int32_t page;  ///< -1: the token is left out
  int32_t slot;
};

__device__ __forceinline__ Slot FindSlot(const PageCopyParams& p, int64_t token) {
  const int32_t request = p.batch_indices[token];
  const int32_t position = p.positions[token];
  if (request < 0 || position < 0) return {-1, 0};
  const uint32_t page = p.page_size.Divide(static_cast<uint32_t>(position));
  return {p.indices[p.indptr[request] + static_cast<int64_t>(page)],
          position - static_cast<int32_t>(page * p.page_size.divisor)};
}

/// Where a thread's columns begin within a token.
struct Column {
  int64_t row;    ///< elements from a token's begin
  int64_t cache;  ///< elements from a slot's begin
};

template <class T>
__device__ __forceinline__ Column ColumnOf(const PageCopyRows& part, int unit) {
  const int head = static_cast<int>(part.units_per_head.Divide(static_cast<uint32_t>(unit)));
  const int column = (unit - head * static_cast<int>(part.units_per_head.divisor)) * T::kVec;
  return {head * part.rows_stride_head + column, head * part.cache_stride_head + column};
}

template <class T>
__device__ __forceinline__ const char* RowAt(const PageCopyRows& part, int64_t token,
                                             int64_t column) {
  return tile::At<T::kS.dtype>(static_cast<const void*>(part.rows),
                               token * part.rows_stride_token + column);
}

template <class T>
__device__ __forceinline__ const char* SlotAt(const PageCopyRows& part, Slot slot, int64_t column) {
  return tile::At<T::kS.dtype_kv>(
      static_cast<const void*>(part.cache),
      slot.page * part.cache_stride_page + slot.slot * part.cache_stride_slot + column);
}

template <class T>
__device__ __forceinline__ void Convert(const typename T::From& from, float scale,
                                        typename T::To& to) {
  float x[T::kVec];
  from.Widen(x);
  if constexpr (T::kIsScaled) {
    const float factor = T::kS.gathers ? scale : 1.0f / scale;
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[j] *= factor;
  }
  to.Narrow(x);
}

template <PageCopySpec kSpec>
__device__ __forceinline__ void Run(const PageCopyParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ Slot slots[];
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t first_token = int64_t{blockIdx.x} * T::kTokens;
  // The same for a whole block, so that strides are in uniform registers.
  const int num_first = (p.parts[0].num_units + T::kNumThreads - 1) / T::kNumThreads;
  const bool is_second = static_cast<int>(blockIdx.y) >= num_first;
  const PageCopyRows& part = p.parts[is_second ? 1 : 0];
  const int column_block = static_cast<int>(blockIdx.y) - (is_second ? num_first : 0);
  const int unit = column_block * T::kNumThreads + static_cast<int>(threadIdx.x);
  const bool has_unit = unit < part.num_units;
  const Column column = ColumnOf<T>(part, has_unit ? unit : 0);
  typename T::From from[T::kTokens];
  if constexpr (!kSpec.gathers) {
#pragma unroll
    for (int i = 0; i < T::kTokens; ++i) {
      if (!has_unit || first_token + i >= p.num_tokens) break;
      from[i].LoadOnce(RowAt<T>(part, first_token + i, column.row));
    }
  }
  if (threadIdx.x < T::kTokens && first_token + threadIdx.x < p.num_tokens) {
    slots[threadIdx.x] = FindSlot(p, first_token + threadIdx.x);
  }
  __syncthreads();
  if (!has_unit) return;
  if constexpr (kSpec.gathers) {
#pragma unroll
    for (int i = 0; i < T::kTokens; ++i) {
      if (first_token + i >= p.num_tokens) break;
      if (slots[i].page >= 0) from[i].Load(SlotAt<T>(part, slots[i], column.cache));
    }
  }
#pragma unroll
  for (int i = 0; i < T::kTokens; ++i) {
    if (first_token + i >= p.num_tokens) break;
    if (slots[i].page < 0) continue;
    typename T::To to;
    if constexpr (T::kFrom == T::kTo) {
      to = from[i];
    } else {
      Convert<T>(from[i], part.scale, to);
    }
    const char* at = kSpec.gathers ? RowAt<T>(part, first_token + i, column.row)
                                   : SlotAt<T>(part, slots[i], column.cache);
    to.Store(const_cast<char*>(at));
  }
}

}  // namespace flashinfer::kernels::page_copy_simt
