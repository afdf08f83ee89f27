// SPDX-License-Identifier: Apache-2.0
// A sample of a row's weights, counted in bins, which says about where a prefix ends.
#pragma once

#include "kernels/sampling/vocabulary_weights.cuh"

namespace flashinfer::kernels::sampling {

/// An end is thought to be above `lo` and not above `hi`, keys both, with about `expected` elements
/// between.
struct Guess {
  int32_t lo;
  int32_t hi;
  uint64_t expected;
};

/// Inclusive sums over lanes.
template <class Int>
__device__ __forceinline__ Int WarpScan(Int x) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Int other = __shfl_up_sync(tile::kFullWarp, x, step);
    if (lane >= step) x += other;
  }
  return x;
}

template <class T>
struct SampleStorage {
  uint32_t counts[kSampleBins];
  uint32_t by_block[T::kCluster][kSampleBins / 2];  ///< two bins a word
  uint64_t by_warp[T::kWarps][4];
};

/// The weights of every kEachth element of a row, counted in bins. The same elements for any number
/// of warps and blocks, of which each counts its own, or, with kIsWhole, all.
template <class T, int kEach = 4, bool kIsWhole = T::kCluster == 1>
class Sample {
 public:
  static constexpr int kEvery = kEach;

  __device__ __forceinline__ explicit Sample(SampleStorage<T>& storage) : s_(storage) {
    static_assert(sizeof(SampleStorage<T>) == SampleBytes(T::kWarps * 32, T::kCluster));
  }

  /// Before the first is added.
  __device__ __forceinline__ void Clear() {
    for (uint32_t i = threadIdx.x; i < kSampleBins; i += kThreads) s_.counts[i] = 0;
    __syncthreads();
  }

  /// Smaller ones than the bins have do not count.
  __device__ __forceinline__ void Add(float weight) {
    const uint32_t place = __float_as_uint(weight) >> kBinShift;
    constexpr uint32_t kLast = kFirstBin + kSampleBins - 1;
    const uint32_t most = place < kLast ? place : kLast;
    if (weight >= EdgeOf(0)) atomicAdd(&s_.counts[most - kFirstBin], 1u);
  }

  /// Inside of an exchange, when all are added.
  __device__ __forceinline__ void Send() const {
#if FLASHINFER_ARCH >= 900
    if constexpr (!kIsWhole) {
      for (uint32_t i = threadIdx.x; i < kSampleBins / 2; i += kThreads) {
        const auto part = [&](uint32_t bin) {
          return s_.counts[bin] < 0xffffu ? s_.counts[bin] : 0xffffu;
        };
        const uint32_t word = part(2 * i) | (part(2 * i + 1) << 16);
#pragma unroll
        for (uint32_t block = 0; block < T::kCluster; ++block) {
          ptx::st_shared_cluster(ptx::mapa(&s_.by_block[T::Exchange::BlockRank()][i], block), word);
        }
      }
    }
#endif
  }

  /// Where all below it weighs about `rest`, of the whole row: by three deviations to both sides.
  /// After the exchange; once.
  template <class WeightsType>
  __device__ __forceinline__ Guess GuessOf(uint64_t rest, const WeightsType& weights,
                                           const Guess& widest) {
    if (kIsWhole) __syncthreads();
    uint32_t counts[kPerThread];
    uint64_t sums[2] = {0, 0};  // what the thread's bins weigh, and how many elements they have
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      counts[j] = CountOf(threadIdx.x * kPerThread + j);
      sums[0] += counts[j] * MiddleOf(j, weights);
      sums[1] += counts[j];
    }
    uint64_t to_here[2] = {WarpScan(sums[0]), WarpScan(sums[1])};
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t warp = threadIdx.x / 32;
    if (lane == 31) s_.by_warp[warp][0] = to_here[0], s_.by_warp[warp][1] = to_here[1];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      to_here[k] += WarpSum64(lane < warp ? s_.by_warp[lane % T::kWarps][k] : 0) - sums[k];
    }
    // In 2^-16 of a bin: what is below `lo` is surely below the end, what is above `hi` above it.
    uint32_t lo = 0;
    uint32_t hi = kSampleBins << kPartBits;
    const auto limit = static_cast<float>(rest);
    const auto spread = [&](uint32_t edge) {
      return 9.0f * (kEvery - 1) * EdgeOf(edge) * weights.unit;
    };
    float last_most = MostOf(to_here[0], spread(threadIdx.x * kPerThread));
    float last_least = LeastOf(to_here[0], spread(threadIdx.x * kPerThread));
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const uint32_t edge = threadIdx.x * kPerThread + j + 1;
      to_here[0] += counts[j] * MiddleOf(j, weights);
      to_here[1] += counts[j];
      s_.counts[edge - 1] = static_cast<uint32_t>(to_here[1]);
      const float most = MostOf(to_here[0], spread(edge));
      if (last_most <= limit) {
        lo = ((edge - 1) << kPartBits) + PartOf(limit - last_most, most - last_most);
      }
      const float least = LeastOf(to_here[0], spread(edge));
      if (least > limit) {
        const uint32_t part = PartOf(limit - last_least, least - last_least);
        const uint32_t place = ((edge - 1) << kPartBits) + part + 1;
        if (place < hi) hi = place;
      }
      last_most = most;
      last_least = least;
    }
    lo = WarpMax32(lo);
    hi = ~WarpMax32(~hi);
    if (lane == 0) s_.by_warp[warp][2] = lo, s_.by_warp[warp][3] = hi;
    __syncthreads();
    lo = WarpMax32(static_cast<uint32_t>(s_.by_warp[lane % T::kWarps][2]));
    hi = ~WarpMax32(~static_cast<uint32_t>(s_.by_warp[lane % T::kWarps][3]));
    const auto below = [&](uint32_t place) {
      const uint32_t bin = place >> kPartBits;
      return bin == 0 ? 0 : s_.counts[bin - 1];
    };
    const auto key = [&](uint32_t place) {
      const float weight = __uint_as_float((kFirstBin << kBinShift) + (place << kPlaceShift));
      return OrderedKey(weights.ValueOf(weight)) - 1;
    };
    Guess g = widest;
    if (lo > 0 && key(lo) > g.lo) g.lo = key(lo);
    constexpr uint32_t kEnd = kSampleBins << kPartBits;
    if (hi < kEnd && key(hi) < g.hi) g.hi = key(hi);
    const uint32_t last = hi < kEnd ? hi + kEnd / kSampleBins : kEnd;
    g.expected = last > lo ? uint64_t{kEvery} * (below(last < kEnd ? last : kEnd) - below(lo)) : 0;
    return g;
  }

 private:
  static constexpr int kThreads = T::kWarps * 32;
  static constexpr int kPerThread = kSampleBins > kThreads ? kSampleBins / kThreads : 1;
  static constexpr int kBinShift = 19;
  static constexpr int kPartBits = 16;
  static constexpr int kPlaceShift = kBinShift - kPartBits;
  static constexpr int kFirstBin = (0x40000000 >> kBinShift) - kSampleBins;
  static_assert(kThreads <= kSampleBins, "a thread has one bin or more");

  /// What part of a bin `x` of `all` is, where weights are spread evenly.
  __device__ __forceinline__ static uint32_t PartOf(float x, float all) {
    const float part = fminf(fmaxf(x / all, 0.0f), 1.0f);  // of NaN 0
    return static_cast<uint32_t>(part * static_cast<float>((1 << kPartBits) - 1));
  }
  /// The most, and the least, that elements of a sum in the sample weigh.
  __device__ __forceinline__ static float MostOf(uint64_t sum, float spread) {
    const auto below = static_cast<float>(sum);
    return below + 0.5f * spread + Root(spread * (below + 0.25f * spread));
  }
  __device__ __forceinline__ static float LeastOf(uint64_t sum, float spread) {
    const auto below = static_cast<float>(sum);
    return below - Root(spread * below);
  }
  __device__ __forceinline__ static float Root(float x) {
    return x > 0.0f ? x * ptx::RsqrtApprox(x) : 0.0f;
  }
  /// The least weight of a bin, and the middle of this thread's bins, as much as the sample stands
  /// for.
  __device__ __forceinline__ static float EdgeOf(uint32_t bin) {
    return __uint_as_float((kFirstBin + bin) << kBinShift);
  }
  template <class WeightsType>
  __device__ __forceinline__ static uint64_t MiddleOf(int j, const WeightsType& weights) {
    const uint32_t bin = threadIdx.x * kPerThread + static_cast<uint32_t>(j);
    return weights.Quantise(kEvery *
                            __uint_as_float(((kFirstBin + bin) << kBinShift) + (1u << 18)));
  }

  __device__ __forceinline__ uint32_t CountOf(uint32_t bin) const {
    if constexpr (kIsWhole) return s_.counts[bin];
    uint32_t count = 0;
#pragma unroll
    for (int block = 0; block < T::kCluster; ++block) {
      count += s_.by_block[block][bin / 2] >> (bin % 2 * 16) & 0xffffu;
    }
    return count;
  }

  SampleStorage<T>& s_;
};

/// Where no sample is wanted.
struct NoSample {
  static constexpr int kEvery = kLaneElements;
  __device__ __forceinline__ void Clear() const {}
  __device__ __forceinline__ void Add(float) const {}
  __device__ __forceinline__ void Send() const {}
};

}  // namespace flashinfer::kernels::sampling
