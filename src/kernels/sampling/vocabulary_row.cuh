// SPDX-License-Identifier: Apache-2.0
// One row of a vocabulary: its first chunks in registers, extremes, and what its elements weigh.
#pragma once

#include "kernels/ptx/math.cuh"
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
  static constexpr bool kReadsAgain = kSpec.reads_again;
  static_assert(kAccess >= 1 && kAccess <= kVec && (kAccess & (kAccess - 1)) == 0,
                "vector_size must be a power of two of at most 16 bytes");
  static_assert(kWarps >= 1 && kWarps <= 32 && kWarps * 32 == kSpec.block_threads &&
                    (kWarps & (kWarps - 1)) == 0,
                "block_threads must be a power of two from 32 to 1024");
  static_assert(kCluster >= 1 && kCluster <= kMaxVocabularyCluster &&
                    (kCluster & (kCluster - 1)) == 0 && (kCluster == 1 || kWarps >= kCluster),
                "cluster_size must be 1, 2, 4 or 8, at most the warps of a block");
  static_assert(kResident == 1 || kResident == 2 || kResident == 4,
                "resident_chunks must be 1, 2 or 4");
  using Exchange = sampling::Exchange<kWarps, kCluster>;
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

/// The chunks of this warp. `Source` loads one: `source(chunk, lane)`.
template <class T, class Source>
class Row {
 public:
  __device__ __forceinline__ Row(const Source& source, int32_t chunks_per_warp)
      : source_(source),
        first_(T::Exchange::WarpRank() * static_cast<uint32_t>(chunks_per_warp)),
        count_(chunks_per_warp) {
#pragma unroll
    for (int i = 0; i < T::kResident; ++i) source_(first_ + i, resident_[i]);
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
  __device__ __forceinline__ void Read(int i, Lane& x) const { source_(first_ + i, x); }

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
    if constexpr (T::kReadsAgain) {
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
  uint32_t first_;
  int32_t count_;
  Lane resident_[T::kResident];
};

/// Of the elements of a row.
struct Extremes {
  float max;
  bool is_bad;  ///< some element is NaN; of probabilities, also a negative one
  /// Key of the smallest of the threads' largest elements: where to begin to look for large ones.
  int32_t min_of_max;
};

template <bool kAreLogits, class T, class RowType>
__device__ __forceinline__ Extremes ExtremesOf(const RowType& row, typename T::Exchange& exchange) {
  float max = -kInfinity;
  bool is_bad = false;
  row.ForEachChunk([&](uint32_t, const Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      is_bad |= kAreLogits ? x[i] != x[i] : !(x[i] >= 0.0f);
      max = fmaxf(max, x[i]);
    }
  });
  const uint32_t key = UnsignedKey(OrderedKey(max + 0.0f));  // no -0
  const bool has_some = max > (kAreLogits ? -kInfinity : 0.0f);
  uint64_t words[2] = {key, (uint64_t{is_bad} << 32) | (has_some ? ~key : 0u)};
  exchange.Reduce(words, MaxOf());
  return {.max = FloatOfKey(SignedKey(static_cast<uint32_t>(words[0]))),
          .is_bad = (words[1] >> 32) != 0,
          .min_of_max = SignedKey(~static_cast<uint32_t>(words[1]))};
}

/// Weights of elements, the largest from 1 to 2, and their sums as integers of 2^-shift.
template <bool kAreLogits>
struct Weights {
  float max;     ///< of the row
  float factor;  ///< logits: 2^((x - max) · factor); probabilities: x · factor, a power of two
  float unit;    ///< 2^shift

  /// `scale` is of logits.
  __device__ __forceinline__ Weights(float row_max, float scale, int32_t row_size) : max(row_max) {
    // Sums stay below 2^62: each weight is below 2.
    const int shift = 60 - (32 - __clz(row_size));
    unit = __uint_as_float(static_cast<uint32_t>(127 + shift) << 23);
    factor = scale;
    if constexpr (!kAreLogits) {
      const auto exponent = static_cast<int>(__float_as_uint(row_max) >> 23);
      const int inverse = 254 - exponent;
      factor = __uint_as_float(static_cast<uint32_t>(inverse < 1     ? 1
                                                     : inverse > 254 ? 254
                                                                     : inverse)
                               << 23);
    }
  }

  __device__ __forceinline__ float operator()(float x) const {
    return kAreLogits ? ptx::ex2_approx((x - max) * factor) : x * factor;
  }
  /// The same, which the compiler takes for others: it would keep the weights of a whole row in
  /// registers from one pass to the next.
  __device__ __forceinline__ Weights Anew() const {
    Weights w = *this;
    ptx::Opaque(w.factor);
    return w;
  }
  __device__ __forceinline__ uint64_t Quantise(float sum) const {
    return __float2ull_rn(sum * unit);
  }
  /// The value whose weight is about `weight`, in units of Quantise().
  __device__ __forceinline__ float ValueOf(float weight) const {
    const float w = weight / unit;
    return kAreLogits ? max + ptx::lg2_approx(w) / factor : w / factor;
  }
};

/// log2(e) / temperature; temperature 0 is told apart by the caller.
__device__ __forceinline__ float ScaleOf(float temperature) {
  constexpr float kLog2E = 1.44269504088896340736f;
  constexpr float kMaxFloat = 3.402823466e+38f;
  return fminf(kLog2E / temperature, kMaxFloat);
}

/// Rows in memory as a Source.
template <class T>
struct RowInMemory {
  const char* data;
  uint32_t size;
  float pad;        ///< what is past the end: below everything, or weighs nothing
  bool is_uniform;  ///< temperature 0: logits become 0, or stay -inf

  __device__ __forceinline__ void operator()(uint32_t chunk, Lane& x) const {
    LoadLane<T>(data, size, chunk, pad, x);
    if (!is_uniform) return;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      if (fabsf(x[i]) < kInfinity) x[i] = 0.0f;
    }
  }
};

}  // namespace flashinfer::kernels::sampling
