// SPDX-License-Identifier: Apache-2.0
// Where a prefix of a row ends, from a 16th of the row: before the pass that lists what is near.
#pragma once

#include "kernels/sampling/vocabulary_list.cuh"

namespace flashinfer::kernels::sampling {

inline constexpr int kForecastEvery = 16;

/// Above every key: nothing lies between it and itself.
inline constexpr int32_t kHighestKey = 0x7fffffff;
inline constexpr Guess kNoGuess{kHighestKey, kHighestKey, kAllTies};

/// Calls `visit(element)` for 32 neighbouring elements of each chunk: the same for any number of
/// blocks, since each looks at the whole row.
template <class T, class RowType, class Visit>
__device__ __forceinline__ void ForEachForecast(const RowType& row, uint32_t size,
                                                const Visit& visit) {
  constexpr uint32_t kAtOnce = 8;
  const uint32_t num_chunks = (size + kChunkElements - 1) / kChunkElements;
#pragma unroll 1
  for (uint32_t first = threadIdx.x / 32; first < num_chunks; first += kAtOnce * T::kWarps) {
    float x[kAtOnce];
    uint32_t is_there = 0;
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t chunk = first + j * T::kWarps;
      constexpr uint32_t kParts = kChunkElements / 32;
      const uint32_t part = chunk * 5 % kParts;  // rows may repeat themselves
      const uint32_t column = chunk * kChunkElements + part * 32 + threadIdx.x % 32;
      if (chunk >= num_chunks || column >= size) continue;
      x[j] = row.ElementAt(column);
      is_there |= 1u << j;
    }
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      if ((is_there >> j & 1) != 0) visit(x[j]);
    }
  }
}

/// A key that at least about `k` elements are above, not many more. Each warp has the `rank`-th
/// largest of its lanes' largest elements; of all warps the least counts.
template <class T, class RowType>
__device__ __forceinline__ Guess ForecastOfKth(const RowType& row, uint32_t size, uint32_t k,
                                               int32_t lowest, CutSearchStorage<T>& storage) {
  using Order = typename T::Order;
  if (size <= kMaxCandidatesOf<T>) return {lowest, kHighestKey, size};
  // Four deviations more than what is expected of a 16th.
  const float share = static_cast<float>(k) / kForecastEvery;
  const float most = share + 4.0f * share * ptx::RsqrtApprox(share) + 4.0f;
  const auto rank = static_cast<uint32_t>(most / T::kWarps) + 1;
  constexpr uint32_t kMaxRank = 16;  // of 32: more lanes' largest elements are too far below
  if (rank > kMaxRank) return kNoGuess;
  uint32_t key = 0;
  ForEachForecast<T>(row, size, [&](float x) {
    const uint32_t other = UnsignedKey(Order::KeyOf(x));
    key = other > key ? other : key;
  });
  uint32_t highest = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < rank; ++i) {
    highest = WarpMax32(key);
    const uint32_t holders = __ballot_sync(tile::kFullWarp, key == highest);
    if (__ffs(static_cast<int>(holders)) - 1 == static_cast<int>(threadIdx.x % 32)) key = 0;
  }
  if (threadIdx.x % 32 == 0) storage.sums[0][threadIdx.x / 32] = ~highest;
  __syncthreads();
  const auto bound = WarpMax32(static_cast<uint32_t>(storage.sums[0][threadIdx.x % T::kWarps]));
  const int32_t lo = SignedKey(~bound);
  return {lo > lowest ? lo - 1 : lowest, kHighestKey, kAllTies};
}

}  // namespace flashinfer::kernels::sampling
