// SPDX-License-Identifier: Apache-2.0
// What kernels over rows derive from their specs, and moves of a lane's elements of a chunk.
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/sampling/vocabulary_exchange.cuh"
#include "kernels/sampling/vocabulary_order.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::sampling {

template <class Spec>
constexpr int SharedChunksOf(const Spec& spec) {
  if constexpr (requires { spec.shared_chunks; }) return spec.shared_chunks;
  return 0;
}

/// Where a block keeps chunks.
template <int kBytes>
struct alignas(16) SharedChunkStorage {
  char bytes[kBytes];
};
template <>
struct SharedChunkStorage<0> {
  static constexpr char* bytes = nullptr;
};

/// What all kernels over rows of a vocabulary derive from their specs.
template <class Spec, Spec kSpec, class OrderType = FloatOrder>
struct RowTraits {
  using Order = OrderType;
  static constexpr DType kDType = kSpec.dtype;
  static constexpr int kVec = 16 / tile::SizeBytes(kDType);  ///< adjacent elements of a lane
  static constexpr int kAccess = kSpec.vector_size;
  static constexpr int kGroups = kLaneElements / kVec;
  static constexpr int kWarps = kSpec.block_threads / 32;
  static constexpr int kCluster = kSpec.cluster_size;
  static constexpr int kResident = kSpec.resident_chunks;
  static constexpr int kShared = SharedChunksOf(kSpec);
  static constexpr bool kReadsAgain = kSpec.reads_again;
  static constexpr bool kStreams = kResident == 0;              ///< each pass reads the row
  static constexpr bool kHasMore = kShared > 0 || kReadsAgain;  ///< than in registers
  static constexpr int kSharedChunkBytes = kChunkElements * tile::SizeBytes(kDType);
  static_assert(kAccess >= 1 && kAccess <= kVec && (kAccess & (kAccess - 1)) == 0,
                "vector_size must be a power of two of at most 16 bytes");
  static_assert(kWarps >= 1 && kWarps <= 32 && kWarps * 32 == kSpec.block_threads &&
                    (kWarps & (kWarps - 1)) == 0,
                "block_threads must be a power of two from 32 to 1024");
  static_assert(kCluster >= 1 && kCluster <= kMaxVocabularyCluster &&
                    (kCluster & (kCluster - 1)) == 0 && (kCluster == 1 || kWarps >= kCluster),
                "cluster_size must be 1, 2, 4 or 8, at most the warps of a block");
  static_assert(kResident >= 0 && kResident <= 4, "resident_chunks must be 0 to 4");
  static_assert(!kStreams || kReadsAgain, "rows of which nothing is kept must be read again");
  static_assert(!kStreams || kShared == 0 || kShared >= 3,
                "shared_chunks of rows of which nothing is kept must be 0 or at least 3");
  static_assert(kShared == 0 || kAccess == kVec, "shared_chunks need accesses of 16 bytes");
  using Exchange = sampling::Exchange<kWarps, kCluster>;
  using SharedChunks = SharedChunkStorage<kWarps * kShared * kSharedChunkBytes>;
};

/// Elements of a lane's chunk; element i of it is at ColumnOf(chunk, i).
using Lane = float[kLaneElements];

template <class T>
__device__ __forceinline__ uint32_t ColumnOf(uint32_t chunk, int i) {
  const uint32_t group = chunk * T::kGroups + i / T::kVec;
  return group * (32 * T::kVec) + threadIdx.x % 32 * T::kVec + i % T::kVec;
}

/// Loads a lane's elements of a chunk, `pad` past the end. An access is wholly inside or outside.
template <class T>
__device__ __forceinline__ void LoadLane(const char* row, uint32_t size, uint32_t chunk, float pad,
                                         Lane& x) {
#pragma unroll
  for (int i = 0; i < kLaneElements; i += T::kAccess) {
    const uint32_t column = ColumnOf<T>(chunk, i);
    float wide[T::kAccess];
    if (column < size) {
      tile::Elements<T::kDType, T::kAccess> e;
      e.Load(tile::At<T::kDType>(row, column));
      e.Widen(wide);
    } else {
#pragma unroll
      for (int j = 0; j < T::kAccess; ++j) wide[j] = pad;
    }
#pragma unroll
    for (int j = 0; j < T::kAccess; ++j) x[i + j] = wide[j];
  }
}

/// Stores a lane's elements of a chunk as kOut; what is past the end stays out.
template <class T, DType kOut>
__device__ __forceinline__ void StoreLane(void* row, uint32_t size, uint32_t chunk, const Lane& x) {
#pragma unroll
  for (int i = 0; i < kLaneElements; i += T::kAccess) {
    const uint32_t column = ColumnOf<T>(chunk, i);
    if (column >= size) continue;
    float wide[T::kAccess];
#pragma unroll
    for (int j = 0; j < T::kAccess; ++j) wide[j] = x[i + j];
    tile::Elements<kOut, T::kAccess> e;
    e.Narrow(wide);
    e.Store(tile::At<kOut>(row, column));
  }
}

/// Begins to copy a lane's elements of a chunk to shared memory, `to` being the warp's chunk there.
template <class T>
__device__ __forceinline__ void CopyLane(const char* row, uint32_t size, uint32_t chunk, char* to) {
#pragma unroll
  for (int g = 0; g < T::kGroups; ++g) {
    const uint32_t column = ColumnOf<T>(chunk, g * T::kVec);
    if (column >= size) continue;
    ptx::cp_async<16>(to + (g * 32 + threadIdx.x % 32) * 16, tile::At<T::kDType>(row, column));
  }
}

/// LoadLane() of what was copied.
template <class T>
__device__ __forceinline__ void LoadSharedLane(const char* from, uint32_t size, uint32_t chunk,
                                               float pad, Lane& x) {
#pragma unroll
  for (int g = 0; g < T::kGroups; ++g) {
    float wide[T::kVec];
    tile::Elements<T::kDType, T::kVec> e;
    e.Load(from + (g * 32 + threadIdx.x % 32) * 16);
    e.Widen(wide);
    const bool is_inside = ColumnOf<T>(chunk, g * T::kVec) < size;
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[g * T::kVec + j] = is_inside ? wide[j] : pad;
  }
}

}  // namespace flashinfer::kernels::sampling
