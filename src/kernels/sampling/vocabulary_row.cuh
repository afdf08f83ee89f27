// SPDX-License-Identifier: Apache-2.0
// One row of a vocabulary: its first chunks in registers, the next in shared memory.
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/sampling/vocabulary_exchange.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::sampling {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

/// Ordered as the floats are; no NaN.
__device__ __forceinline__ int32_t OrderedKey(float x) {
  const auto bits = static_cast<int32_t>(__float_as_uint(x));
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
__device__ __forceinline__ float FloatOfKey(int32_t key) {
  return __uint_as_float(static_cast<uint32_t>(key >= 0 ? key : key ^ 0x7fffffff));
}
inline constexpr int32_t kKeyOfMinusInfinity = static_cast<int32_t>(0x807fffffu);

/// Keys as unsigned numbers in the same order.
__device__ __forceinline__ uint32_t UnsignedKey(int32_t key) {
  return static_cast<uint32_t>(key) ^ 0x80000000u;
}
__device__ __forceinline__ int32_t SignedKey(uint32_t key) {
  return static_cast<int32_t>(key ^ 0x80000000u);
}

/// Elements are floats, and ordered as such. A key of nothing is below them all.
struct FloatOrder {
  static constexpr int32_t kNothing = kKeyOfMinusInfinity - 1;
  __device__ __forceinline__ static float ElementOf(int32_t key) {
    return key == kNothing ? -kInfinity : FloatOfKey(key);
  }
  __device__ __forceinline__ static int32_t KeyOf(float element) { return OrderedKey(element); }
  __device__ __forceinline__ static bool IsAbove(float a, float b) { return a > b; }
};

/// Elements hold the bits of their keys, so that NaN has a place: above infinity.
struct KeyOrder {
  static constexpr int32_t kNothing = kKeyOfMinusInfinity - 1;
  static constexpr int32_t kNan = 0x7fffffff;
  __device__ __forceinline__ static float ElementOf(int32_t key) {
    return __uint_as_float(static_cast<uint32_t>(key));
  }
  __device__ __forceinline__ static int32_t KeyOf(float element) {
    return static_cast<int32_t>(__float_as_uint(element));
  }
  __device__ __forceinline__ static bool IsAbove(float a, float b) { return KeyOf(a) > KeyOf(b); }
};

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
  static_assert(kResident >= 1 && kResident <= 4, "resident_chunks must be 1 to 4");
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

/// The chunks of this warp. `Source` loads one, `source(chunk, lane)`, or, where some are kept in
/// shared memory, copies it there and loads it from there.
template <class T, class Source>
class Row {
 public:
  /// `shared` is where the block keeps chunks.
  __device__ __forceinline__ Row(const Source& source, int32_t chunks_per_warp,
                                 char* shared = nullptr)
      : source_(source),
        shared_(shared + threadIdx.x / 32 * (T::kShared * T::kSharedChunkBytes)),
        first_(T::Exchange::WarpRank() * static_cast<uint32_t>(chunks_per_warp)),
        count_(chunks_per_warp) {
#pragma unroll
    for (int i = 0; i < T::kResident; ++i) source_(first_ + i, resident_[i]);
    if constexpr (T::kShared > 0) {
#pragma unroll
      for (int i = 0; i < T::kShared; ++i) {
        source_.Copy(first_ + T::kResident + i, shared_ + i * T::kSharedChunkBytes);
      }
      ptx::cp_async_commit_group();
    }
  }

  /// Calls `visit(chunk, lane)` for each, in order. Chunks past the last are all padding.
  template <class Visit>
  __device__ __forceinline__ void ForEachChunk(const Visit& visit) const {
    ForEachMapped([](Lane&) {}, visit);
  }

  __device__ __forceinline__ int32_t count() const { return count_; }
  __device__ __forceinline__ uint32_t chunk(int i) const { return first_ + i; }
  /// The chunks in registers, and others by number.
  template <class Visit>
  __device__ __forceinline__ void ForEachResident(const Visit& visit) const {
#pragma unroll
    for (int i = 0; i < T::kResident; ++i) visit(first_ + i, resident_[i]);
  }
  __device__ __forceinline__ float ElementAt(uint32_t column) const {
    return source_.ElementAt(column);
  }
  __device__ __forceinline__ void Read(int i, Lane& x) const {
    if constexpr (T::kShared > 0) {
      ptx::cp_async_wait_group<0>();
      const int place = i - T::kResident;
      if (!T::kReadsAgain || place < T::kShared) {
        source_.FromShared(first_ + i, shared_ + place * T::kSharedChunkBytes, x);
        return;
      }
    }
    source_(first_ + i, x);
  }

  /// Applies `map(lane)` to what is in registers.
  template <class MapType>
  __device__ __forceinline__ void Map(const MapType& map) {
#pragma unroll
    for (int i = 0; i < T::kResident; ++i) map(resident_[i]);
  }
  /// ForEachChunk() after Map(): what is read again is mapped again.
  template <class MapType, class Visit>
  __device__ __forceinline__ void ForEachMapped(const MapType& map, const Visit& visit) const {
    ForEachResident(visit);
    if constexpr (T::kHasMore) {
#pragma unroll 1
      for (int i = T::kResident; i < count_; ++i) {
        Lane x;
        Read(i, x);
        map(x);
        visit(first_ + i, x);
      }
    }
  }

 private:
  const Source& source_;
  char* shared_;
  uint32_t first_;
  int32_t count_;
  Lane resident_[T::kResident];
};

/// Rows in memory as a Source.
template <class T>
struct RowInMemory {
  const char* data;
  uint32_t size;
  float pad;        ///< what is past the end: below everything, or weighs nothing
  bool is_uniform;  ///< temperature 0: logits become 0, or stay -inf

  __device__ __forceinline__ void operator()(uint32_t chunk, Lane& x) const {
    LoadLane<T>(data, size, chunk, pad, x);
    Finish(x);
  }
  __device__ __forceinline__ void Copy(uint32_t chunk, char* to) const {
    CopyLane<T>(data, size, chunk, to);
  }
  __device__ __forceinline__ void FromShared(uint32_t chunk, const char* from, Lane& x) const {
    LoadSharedLane<T>(from, size, chunk, pad, x);
    Finish(x);
  }

  /// One that is inside.
  __device__ __forceinline__ float ElementAt(uint32_t column) const {
    const float x = tile::LoadElement<T::kDType>(data, column);
    return is_uniform && fabsf(x) < kInfinity ? 0.0f : x;
  }

  __device__ __forceinline__ void Finish(Lane& x) const {
    if (!is_uniform) return;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      if (fabsf(x[i]) < kInfinity) x[i] = 0.0f;
    }
  }
};

}  // namespace flashinfer::kernels::sampling
