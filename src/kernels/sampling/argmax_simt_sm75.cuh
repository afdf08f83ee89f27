// SPDX-License-Identifier: Apache-2.0
// The first largest element of rows: a cluster of blocks takes a row. Bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/argmax_spec.h"
#include "kernels/sampling/vocabulary_row.cuh"

namespace flashinfer::kernels::argmax_simt {

using namespace sampling;

template <ArgMaxSpec kSpec>
struct Traits : RowTraits<ArgMaxSpec, kSpec> {
  static constexpr ArgMaxSpec kS = kSpec;
  static_assert(sizeof(typename Traits::Exchange::Storage) == SmemBytes(kSpec));
};

template <ArgMaxSpec kSpec>
__device__ __forceinline__ void Run(const ArgMaxParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t index = blockIdx.x / T::kCluster;
  const RowInMemory<T> source{.data = tile::At<kSpec.dtype>(p.rows.data, index * p.rows.stride),
                              .size = static_cast<uint32_t>(p.rows.size),
                              .pad = -kInfinity,
                              .is_uniform = false};
  const Row<T, RowInMemory<T>> row(source, p.rows.chunks_per_warp);
  typename T::Exchange exchange(*reinterpret_cast<typename T::Exchange::Storage*>(shared_memory));
  float max = -kInfinity;
  uint32_t token = 0;
  bool has_nan = false;
  row.ForEachChunk([&](uint32_t chunk, const Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {  // a lane's columns rise
      has_nan |= x[i] != x[i];
      if (x[i] > max) max = x[i], token = ColumnOf<T>(chunk, i);
    }
  });
  const uint32_t key = UnsignedKey(OrderedKey(max + 0.0f));  // no -0
  uint64_t words[2] = {(uint64_t{key} << 32) | ~token, has_nan};
  exchange.Reduce(words, MaxOf());
  if (T::Exchange::WarpRank() != 0 || threadIdx.x != 0) return;
  const bool has_max = FloatOfKey(SignedKey(static_cast<uint32_t>(words[0] >> 32))) > -kInfinity;
  p.out.tokens[index * p.out.tokens_stride] =
      has_max ? static_cast<int32_t>(~static_cast<uint32_t>(words[0])) : 0;
  if (p.out.valid != nullptr) {
    p.out.valid[index * p.out.valid_stride] = has_max && words[1] == 0;
  }
}

}  // namespace flashinfer::kernels::argmax_simt
