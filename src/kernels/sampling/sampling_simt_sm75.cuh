// SPDX-License-Identifier: Apache-2.0
// Sampling: a cluster of blocks takes a row, keeps it in registers, finds what the filters keep and
// draws. Memory is read once where a row fits. With filters, of a long row nothing is kept: one
// pass lists what lies near a forecast, and the cut and all it keeps are found in that list.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/sampling_spec.h"
#include "kernels/sampling/vocabulary_draw.cuh"
#include "kernels/sampling/vocabulary_filter.cuh"

namespace flashinfer::kernels::sampling_simt {

using namespace sampling;

template <SamplingSpec kSpec>
struct Traits : RowTraits<SamplingSpec, kSpec> {
  static constexpr SamplingSpec kS = kSpec;
  struct SharedStorage {
    [[no_unique_address]] typename Traits::SharedChunks chunks;
    FilterStorage<Traits, kSpec.has_top_p> filters;
    typename Traits::Exchange::Storage exchange;
    [[no_unique_address]] DrawStorage<Traits::kStreams ? Traits::kWarps : 0> draw;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

__device__ __forceinline__ void Write(const TokenOutputsParams& out, int64_t row, int64_t token,
                                      bool valid) {
  out.tokens[row * out.tokens_stride] = static_cast<int32_t>(token);
  if (out.valid != nullptr) out.valid[row * out.valid_stride] = valid;
}

__device__ __forceinline__ int64_t RowRead(const SamplingParams& p, int64_t output) {
  if (p.indices == nullptr) return output;
  const int64_t at = output * p.indices_stride;
  const int64_t row = p.indices_are_64_bit ? static_cast<const int64_t*>(p.indices)[at]
                                           : static_cast<const int32_t*>(p.indices)[at];
  return row >= 0 && row < p.num_rows ? row : 0;
}

/// Row `output` was looked at: draws from what the filters keep.
template <class T, class RowType, class FiltersType>
__device__ __forceinline__ void DrawFrom(const SamplingParams& p, int64_t output,
                                         const RowType& row, FiltersType& filters,
                                         typename T::Exchange& exchange,
                                         typename T::SharedStorage& shared, const Survey& survey,
                                         float scale) {
  constexpr bool kAreLogits = T::kS.from_logits;
  const Weights<kAreLogits> weights(survey.extremes.max, scale, p.rows.size);
  Cut cut = filters.CutOf(survey, weights);
  const float min_p = p.min_p[output];
  if (min_p > 0.0f) {
    const Cut limit{LimitOfMinP(weights, min_p), kAllTies, 0};
    if (IsShorter(limit, cut)) cut = limit;
  }
  const uint32_t word = RandomWord(p.random, output);
  // The lists of the search are not needed any more where a chunk is staged.
  auto& staged = reinterpret_cast<StagedChunk&>(shared.filters.search.values);
  const auto write = [&](uint32_t token) { Write(p.out, output, token, true); };
  if constexpr (T::kStreams) {
    DrawStreamed<T>(row, exchange, shared.draw, staged, filters, cut, weights, word, write);
  } else {
    Draw<T>(row, exchange, staged, cut, weights, word, write);
  }
}

template <SamplingSpec kSpec>
__device__ __forceinline__ void Run(const SamplingParams& p) {
  using T = Traits<kSpec>;
  using Exchange = typename T::Exchange;
  constexpr bool kAreLogits = kSpec.from_logits;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t output = blockIdx.x / T::kCluster;
  const float temperature = kAreLogits ? p.temperature[output] : 1.0f;
  const bool is_uniform = kAreLogits && !(temperature > 0.0f);
  const RowInMemory<T> source{
      .data = tile::At<kSpec.dtype>(p.rows.data, RowRead(p, output) * p.rows.stride),
      .size = static_cast<uint32_t>(p.rows.size),
      .pad = kAreLogits ? -kInfinity : 0.0f,
      .is_uniform = is_uniform};
  const Row<T, RowInMemory<T>> row(source, p.rows.chunks_per_warp, shared.chunks.bytes);
  Exchange exchange(shared.exchange);
  Filters<kAreLogits, kSpec.has_top_k, kSpec.has_top_p, T, Row<T, RowInMemory<T>>> filters(
      row, exchange, shared.filters, p.rows, {p.top_k[output], p.top_p[output], p.is_joint});
  const Survey survey = filters.Look();
  const Extremes& extremes = survey.extremes;
  const bool has_weight = extremes.max > (kAreLogits ? -kInfinity : 0.0f);
  if (extremes.is_bad || !has_weight || extremes.max == kInfinity) {
    if (Exchange::WarpRank() == 0 && threadIdx.x == 0) Write(p.out, output, 0, false);
    return;
  }
  DrawFrom<T>(p, output, row, filters, exchange, shared, survey,
              is_uniform ? 1.0f : ScaleOf(temperature));
}

}  // namespace flashinfer::kernels::sampling_simt
