// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking: a cluster of blocks takes a row, keeps it in registers, finds what is
// kept and writes it. A long row is read twice instead: what lies near a forecast is listed first.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/token_filter_spec.h"
#include "kernels/sampling/vocabulary_filter.cuh"
#include "kernels/sampling/vocabulary_kept.cuh"

namespace flashinfer::kernels::token_filter_simt {

using namespace sampling;

template <TokenFilterSpec kSpec>
struct Traits : RowTraits<TokenFilterSpec, kSpec> {
  static constexpr TokenFilterSpec kS = kSpec;
  struct SharedStorage {
    [[no_unique_address]] typename Traits::SharedChunks chunks;
    FilterStorage<Traits, kSpec.has_top_p> filters;
    typename Traits::Exchange::Storage exchange;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// Writes what is kept, probabilities over their sum, and 0 or -inf elsewhere.
template <class T, class RowType>
__device__ __forceinline__ void WriteKept(const RowType& row, const Kept& kept, const Cut& cut,
                                          const Weights<T::kS.from_logits>& weights, char* out,
                                          uint32_t size) {
  constexpr float kFill = T::kS.from_logits ? -kInfinity : 0.0f;
  const float factor =
      T::kS.from_logits ? 1.0f : weights.unit / static_cast<float>(kept.total) * weights.factor;
  const uint64_t kept_ties = KeptTies(cut, kept.tie_rank, kept.tie_rank + kept.mine.num_ties);
  const bool counts_ties = kept_ties > 0 && kept_ties < kept.mine.num_ties;
  TieCounter<T> ties(cut, kept.tie_rank);
  row.ForEachChunk([&](uint32_t chunk, const Lane& x) {
    const LaneMasks masks = MasksOf<FloatOrder>(x, cut);
    uint32_t mask = masks.above;
    if (counts_ties) {
      mask |= ties.Kept(masks.ties);
    } else if (kept_ties > 0) {
      mask |= masks.ties;
    }
    Lane y;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) y[i] = (mask >> i & 1) != 0 ? x[i] * factor : kFill;
    StoreLane<T, T::kDType>(out, size, chunk, y);
  });
}

template <TokenFilterSpec kSpec>
__device__ __forceinline__ void Run(const TokenFilterParams& p) {
  using T = Traits<kSpec>;
  constexpr bool kAreLogits = kSpec.from_logits;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t index = blockIdx.x / T::kCluster;
  const RowInMemory<T> source{.data = tile::At<kSpec.dtype>(p.rows.data, index * p.rows.stride),
                              .size = static_cast<uint32_t>(p.rows.size),
                              .pad = kAreLogits ? -kInfinity : 0.0f,
                              .is_uniform = false};
  const Row<T, RowInMemory<T>> row(source, p.rows.chunks_per_warp, shared.chunks.bytes);
  typename T::Exchange exchange(shared.exchange);
  Filters<kAreLogits, kSpec.has_top_k, kSpec.has_top_p, T, Row<T, RowInMemory<T>>> filters(
      row, exchange, shared.filters, p.rows, {p.top_k[index], p.top_p[index], false});
  const Survey survey = filters.Look();
  const Extremes& extremes = survey.extremes;
  char* out = tile::At<kSpec.dtype>(p.out, index * p.out_stride);
  const bool is_distribution = !extremes.is_bad && extremes.max > 0.0f && extremes.max < kInfinity;
  if (kAreLogits ? extremes.is_bad : !is_distribution) {
    // Logits with NaN are copied; what is no distribution becomes NaN.
    const float factor = kAreLogits ? 1.0f : __uint_as_float(0x7fffffffu);
    row.ForEachChunk([&](uint32_t chunk, const Lane& x) {
      Lane y;
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) y[i] = x[i] * factor;
      StoreLane<T, T::kDType>(out, source.size, chunk, y);
    });
    return;
  }
  const Weights<kAreLogits> weights(extremes.max, 1.0f, p.rows.size);
  const Cut cut = filters.CutOf(survey, weights);
  const Kept kept(filters.MassOfWarp(cut, weights), exchange, cut, weights);
  WriteKept<T>(row, kept, cut, weights, out, source.size);
}

}  // namespace flashinfer::kernels::token_filter_simt
