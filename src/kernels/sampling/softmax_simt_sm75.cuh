// SPDX-License-Identifier: Apache-2.0
// Softmax: a cluster of blocks takes a row and keeps it in registers. Bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/softmax_spec.h"
#include "kernels/sampling/vocabulary_survey.cuh"

namespace flashinfer::kernels::softmax_simt {

using namespace sampling;

template <SoftmaxSpec kSpec>
struct Traits : RowTraits<SoftmaxSpec, kSpec> {
  static constexpr SoftmaxSpec kS = kSpec;
  struct SharedStorage {
    [[no_unique_address]] typename Traits::SharedChunks chunks;
    typename Traits::Exchange::Storage exchange;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

template <SoftmaxSpec kSpec>
__device__ __forceinline__ void Run(const SoftmaxParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t index = blockIdx.x / T::kCluster;
  const float temperature = p.temperature[index];
  const bool is_uniform = !(temperature > 0.0f);
  const RowInMemory<T> source{.data = tile::At<kSpec.dtype>(p.rows.data, index * p.rows.stride),
                              .size = static_cast<uint32_t>(p.rows.size),
                              .pad = -kInfinity,
                              .is_uniform = is_uniform};
  Row<T, RowInMemory<T>> row(source, p.rows.chunks_per_warp, shared.chunks.bytes);
  typename T::Exchange exchange(shared.exchange);
  const Extremes extremes = ExtremesOf<true, T>(row, exchange);
  const bool is_distribution =
      !extremes.is_bad && extremes.max > -kInfinity && extremes.max < kInfinity;
  const Weights<true> weights(is_distribution ? extremes.max : 0.0f,
                              is_uniform ? 1.0f : ScaleOf(temperature), p.rows.size);
  const auto weigh = [&](Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) x[i] = weights(x[i]);
  };
  row.Map(weigh);
  uint64_t sums[1] = {0};
  row.ForEachMapped(weigh, [&](uint32_t, const Lane& x) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) sum += x[i];
    sums[0] += weights.Quantise(sum);
  });
  exchange.Reduce(sums, SumOf());
  const float nan = __uint_as_float(0x7fffffffu);
  const float factor = is_distribution ? weights.unit / static_cast<float>(sums[0]) : nan;
  float* out = p.probs + index * p.probs_stride;
  row.ForEachMapped(weigh, [&](uint32_t chunk, const Lane& x) {
    Lane y;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) y[i] = x[i] * factor;
    StoreLane<T, DType::kF32>(out, source.size, chunk, y);
  });
}

}  // namespace flashinfer::kernels::softmax_simt
