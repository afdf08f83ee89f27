// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling: every warp looks at the drafts of its row; then a cluster of blocks
// draws from what the target has more than the draft at the first rejection.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/chain_speculative_spec.h"
#include "kernels/sampling/vocabulary_draw.cuh"

namespace flashinfer::kernels::chain_speculative_simt {

using namespace sampling;

template <ChainSpeculativeSpec kSpec>
struct Traits : RowTraits<ChainSpeculativeSpec, kSpec> {
  static constexpr ChainSpeculativeSpec kS = kSpec;
  static_assert(kSpec.dtype == DType::kF32, "dtype must be f32");
  struct SharedStorage {
    StagedChunk staged;
    typename Traits::Exchange::Storage exchange;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// max(0, target - draft), or target where draft is null.
template <class T>
struct Difference {
  const float* target;
  const float* draft;
  uint32_t size;

  __device__ __forceinline__ void operator()(uint32_t chunk, Lane& x) const {
    LoadLane<T>(reinterpret_cast<const char*>(target), size, chunk, 0.0f, x);
    if (draft == nullptr) return;
    Lane y;
    LoadLane<T>(reinterpret_cast<const char*>(draft), size, chunk, 0.0f, y);
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const float difference = x[i] - y[i];
      x[i] = difference < 0.0f ? 0.0f : difference;  // NaN stays
    }
  }
};

struct Drafts {
  int32_t num_accepted;
  int32_t first_rejected;
};

__device__ __forceinline__ bool Accepts(const ChainSpeculativeParams& p, int64_t row, int32_t i) {
  const int32_t token = p.draft_tokens[row * p.draft_tokens_row_stride + i * p.draft_tokens_stride];
  if (token < 0 || token >= p.size) return false;
  // As on the host, so that the same drafts are accepted.
  const double uniform =
      (static_cast<double>(RandomWord(p.random, row, i)) + 1.0) * (1.0 / 4294967296.0);
  const float draft = p.draft.data[row * p.draft.row_stride + i * p.draft.position_stride + token];
  const float target =
      p.target.data[row * p.target.row_stride + i * p.target.position_stride + token];
  return uniform * static_cast<double>(draft) < static_cast<double>(target);
}

__device__ __forceinline__ Drafts LookAtDrafts(const ChainSpeculativeParams& p, int64_t row) {
  Drafts d{0, p.num_drafts};
  for (int32_t first = 0; first < p.num_drafts; first += 32) {
    const int32_t i = first + static_cast<int32_t>(threadIdx.x % 32);
    const bool is_draft = i < p.num_drafts;
    const bool accepts = is_draft && Accepts(p, row, i);
    d.num_accepted += __popc(__ballot_sync(tile::kFullWarp, accepts));
    const uint32_t rejected = __ballot_sync(tile::kFullWarp, is_draft && !accepts);
    if (rejected != 0 && d.first_rejected == p.num_drafts) {
      d.first_rejected = first + __ffs(static_cast<int>(rejected)) - 1;
    }
  }
  return d;
}

/// All but the drawn token, by one warp.
__device__ __forceinline__ void WriteDrafts(const ChainSpeculativeParams& p, int64_t row,
                                            const Drafts& d) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  for (int32_t i = lane; i <= p.num_drafts; i += 32) {
    if (i == d.first_rejected) continue;
    const int32_t token =
        i < d.first_rejected
            ? p.draft_tokens[row * p.draft_tokens_row_stride + i * p.draft_tokens_stride]
            : -1;
    p.tokens[row * p.tokens_row_stride + i * p.tokens_stride] = token;
  }
  if (lane != 0) return;
  const auto add = [&](const RowCountsParams& counts, int32_t n) {
    if (counts.data != nullptr) counts.data[row * counts.stride] += n;
  };
  add(p.num_accepted, d.num_accepted);
  add(p.num_emitted, d.first_rejected);
}

template <ChainSpeculativeSpec kSpec>
__device__ __forceinline__ void Run(const ChainSpeculativeParams& p) {
  using T = Traits<kSpec>;
  using Exchange = typename T::Exchange;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t index = blockIdx.x / T::kCluster;
  const Drafts drafts = LookAtDrafts(p, index);
  const int64_t position = drafts.first_rejected;
  if (Exchange::WarpRank() == 0) WriteDrafts(p, index, drafts);
  const auto write = [&](uint32_t token) {
    p.tokens[index * p.tokens_row_stride + position * p.tokens_stride] =
        static_cast<int32_t>(token);
  };
  Exchange exchange(shared.exchange);
  Difference<T> source{
      p.target.data + index * p.target.row_stride + position * p.target.position_stride,
      position < p.num_drafts
          ? p.draft.data + index * p.draft.row_stride + position * p.draft.position_stride
          : nullptr,
      static_cast<uint32_t>(p.size)};
#pragma unroll 1
  for (;; source.draft = nullptr) {
    const Row<T, Difference<T>> row(source, p.chunks_per_warp);
    const Extremes extremes = ExtremesOf<false, T>(row, exchange);
    const bool is_zero = !extremes.is_bad && !(extremes.max > 0.0f);
    if (is_zero && source.draft != nullptr) continue;
    if (is_zero || extremes.is_bad || extremes.max == kInfinity) {
      if (Exchange::WarpRank() == 0 && threadIdx.x == 0) write(0);
      return;
    }
    const Weights<false> weights(extremes.max, 1.0f, p.size);
    const Cut all{.value = -kInfinity, .num_ties = 0, .skip_ties = 0};
    Draw<T>(row, exchange, shared.staged, all, weights, RandomWord(p.random, index, p.num_drafts),
            write);
    return;
  }
}

}  // namespace flashinfer::kernels::chain_speculative_simt
