// SPDX-License-Identifier: Apache-2.0
// One row of a vocabulary: its first chunks in registers, the next in shared memory; or none kept,
// and each pass reads it by way of shared memory.
#pragma once

#include "kernels/sampling/vocabulary_lane.cuh"

namespace flashinfer::kernels::sampling {

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
    if constexpr (T::kStreams) {
      Begin();
    } else {
#pragma unroll
      for (int i = 0; i < T::kResident; ++i) source_(first_ + i, resident_[i]);
    }
    if constexpr (T::kShared > 0 && !T::kStreams) {
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
    if constexpr (!T::kStreams) {
#pragma unroll
      for (int i = 0; i < T::kResident; ++i) visit(first_ + i, resident_[i]);
    }
  }
  __device__ __forceinline__ float ElementAt(uint32_t column) const {
    return source_.ElementAt(column);
  }
  /// Element `i` of the lane's elements that are visited now.
  __device__ __forceinline__ float Visited(uint32_t chunk, int i) const {
    if constexpr (T::kStreams && T::kShared > 0) {
      return source_.ElementOf(SlotOf(static_cast<int>(chunk - first_)), ColumnOf<T>(0, i));
    } else {
      return source_.ElementAt(ColumnOf<T>(chunk, i));
    }
  }
  __device__ __forceinline__ void ReadChunk(uint32_t chunk, Lane& x) const { source_(chunk, x); }
  __device__ __forceinline__ void Read(int i, Lane& x) const {
    if constexpr (T::kShared > 0 && !T::kStreams) {
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
    if constexpr (T::kStreams) {
      static_assert(sizeof(map) <= 1, "only rows that are kept are mapped");
      Stream(visit);
    } else {
      ForEachResident(visit);
    }
    if constexpr (T::kHasMore && !T::kStreams) {
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
  /// Shared memory of chunks that are on their way, in turns.
  __device__ __forceinline__ char* SlotOf(int i) const {
    return shared_ + i % T::kShared * T::kSharedChunkBytes;
  }
  __device__ __forceinline__ void Ask(int i) const {
    if (i < count_) source_.Copy(first_ + i, SlotOf(i));
    ptx::cp_async_commit_group();
  }
  __device__ __forceinline__ void Begin() const {
    if constexpr (T::kShared > 0) {
#pragma unroll
      for (int i = 0; i + 1 < T::kShared; ++i) Ask(i);
    }
  }

  template <class Visit>
  __device__ __forceinline__ void Stream(const Visit& visit) const {
    if (has_streamed_) Begin();
    has_streamed_ = true;
#pragma unroll 1
    for (int i = 0; i < count_; ++i) {
      Lane x;
      if constexpr (T::kShared > 0) {
        // A lane reads what it has copied; its last chunk's place is free.
        ptx::cp_async_wait_group<T::kShared - 2>();
        source_.FromShared(first_ + i, SlotOf(i), x);
        Ask(i + T::kShared - 1);
      } else {
        source_(first_ + i, x);
      }
      visit(first_ + i, x);
    }
  }

  const Source& source_;
  char* shared_;
  uint32_t first_;
  int32_t count_;
  mutable bool has_streamed_ = false;
  Lane resident_[T::kStreams ? 1 : T::kResident];
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
    return ElementOf(data, column);
  }
  /// One of those at `from`.
  __device__ __forceinline__ float ElementOf(const char* from, uint32_t column) const {
    const float x = tile::LoadElement<T::kDType>(from, column);
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
