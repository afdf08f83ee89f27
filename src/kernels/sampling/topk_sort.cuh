// SPDX-License-Identifier: Apache-2.0
// Sorts the list of a top-k selection by one block: by key descending, then by column.
#pragma once

#include "kernels/sampling/vocabulary_exchange.cuh"
#include "kernels/sampling/vocabulary_row.cuh"

namespace flashinfer::kernels::topk_simt {

/// Rising numbers are the order of the output.
__device__ __forceinline__ uint64_t SortItem(int32_t key, uint32_t column) {
  return (uint64_t{~sampling::UnsignedKey(key)} << 32) | column;
}
__device__ __forceinline__ uint32_t ColumnOfItem(uint64_t item) {
  return static_cast<uint32_t>(item);
}
__device__ __forceinline__ int32_t KeyOfItem(uint64_t item) {
  return sampling::SignedKey(~static_cast<uint32_t>(item >> 32));
}

/// Bitonic sort of `count` items, a list that ends in endless ones larger than all: every exchange
/// puts the larger item behind, so that those are never moved.
template <int kThreads, class Get, class Set>
__device__ __forceinline__ void SortInPlace(int32_t count, const Get& get, const Set& set) {
  for (int32_t size = 2; size < 2 * count; size *= 2) {
    for (int32_t step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int32_t t = static_cast<int32_t>(threadIdx.x);; t += kThreads) {
        const int32_t low = t % step;
        const int32_t i = t / step * (2 * step) + low;
        if (i >= count) break;
        // The first step of a merge compares with the mirrored place.
        const int32_t j = step == size / 2 ? i - low + 2 * step - 1 - low : i + step;
        if (j >= count) continue;
        const uint64_t a = get(i);
        const uint64_t b = get(j);
        if (a > b) set(i, b), set(j, a);
      }
    }
  }
  __syncthreads();
}

template <int kThreads>
__device__ __forceinline__ void SortShared(uint64_t* items, int32_t count) {
  SortInPlace<kThreads>(
      count, [&](int32_t i) { return items[i]; },
      [&](int32_t i, uint64_t item) { items[i] = item; });
}

/// Writes an item to the list of the row's first block.
template <class T>
__device__ __forceinline__ void SendToSort(uint64_t* items, int32_t place, uint64_t item) {
#if FLASHINFER_ARCH >= 900
  if constexpr (T::kCluster > 1) {
    const auto to = ptx::mapa(&items[place], 0);
    ptx::st_shared_cluster(to, static_cast<uint32_t>(item));
    ptx::st_shared_cluster(to + 4, static_cast<uint32_t>(item >> 32));
    return;
  }
#endif
  items[place] = item;
}

/// Sends this block's elements of a list that a cut keeps, and all that tie with its last one, in
/// any order. `num_sent` is 0 in the first block.
template <class T, class List>
__device__ __forceinline__ void SendListed(const List& list, float value, uint32_t (&num_sent)[4],
                                           uint64_t* items) {
  using Order = typename T::Order;
  list.ForEachOwn(threadIdx.x, T::kWarps * 32, [&](uint32_t column, float element) {
    if (Order::IsAbove(value, element)) return;
    uint32_t place = 0;
#if FLASHINFER_ARCH >= 900
    if constexpr (T::kCluster > 1) {
      place = ptx::atom_add_shared_cluster(ptx::mapa(&num_sent[0], 0), 1);
    }
#endif
    if constexpr (T::kCluster == 1) place = atomicAdd(&num_sent[0], 1u);
    SendToSort<T>(items, static_cast<int32_t>(place), SortItem(Order::KeyOf(element), column));
  });
}

}  // namespace flashinfer::kernels::topk_simt
