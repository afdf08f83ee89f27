// SPDX-License-Identifier: Apache-2.0
// Merges attention states: v = Σ 2^(s_i - s) v_i with s = log2 Σ 2^s_i. A few lanes take a row and
// read every state of it before they write, so that the result may replace one. Bound by bytes.
#pragma once

#include "kernels/attention/merge_states_spec.h"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::merge_states_simt {

template <MergeStatesSpec kSpec>
struct Traits {
  static constexpr DType kDType = kSpec.dtype;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kLanes = kSpec.row_lanes;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kLanes >= 1 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0,
                "row_lanes must be a power of two up to 32");
  using Vector = tile::Elements<kDType, kVec>;
};

struct State {
  const char* v;
  float s;
};

/// States of a token, by their place in the tensors.
struct StateRange {
  int64_t begin;
  int count;
};

__device__ __forceinline__ StateRange StatesOf(const MergeStatesParams& p, int64_t token) {
  if (p.indptr == nullptr) return {0, p.num_states};
  const int32_t begin = p.indptr[token * p.indptr_stride];
  return {begin, p.indptr[(token + 1) * p.indptr_stride] - begin};
}

template <class T>
__device__ __forceinline__ State StateAt(const MergeStatesParams& p, int64_t i, int64_t token,
                                         int64_t head) {
  const bool is_second = p.is_pair && i == 1;
  const MergeStateRows& r = is_second ? p.second : p.first;
  const int64_t index = is_second ? 0 : i;
  return {tile::At<T::kDType>(
              static_cast<const void*>(r.v),
              token * r.v_stride_token + head * r.v_stride_head + index * p.v_stride_state),
          r.s[token * r.s_stride_token + head * r.s_stride_head + index * p.s_stride_state]};
}

template <class T>
__device__ __forceinline__ void MergeRow(const MergeStatesParams& p, int64_t token, int64_t head,
                                         int lane) {
  const StateRange states = StatesOf(p, token);
  const auto at = [&](int i) { return StateAt<T>(p, states.begin + i, token, head); };
  float max = tile::kNegativeInfinity;
  for (int i = 0; i < states.count; ++i) max = fmaxf(max, at(i).s);
  float sum = 0;
  for (int i = 0; i < states.count; ++i) sum += tile::Exp2Guarded(at(i).s, max);
  const float factor = sum > 0 ? 1.0f / sum : 0.0f;
  const MergeStateRows& r = p.merged;
  char* out = tile::At<T::kDType>(r.v, token * r.v_stride_token + head * r.v_stride_head);
  for (int column = lane * T::kVec; column < p.head_dim; column += T::kLanes * T::kVec) {
    float merged[T::kVec] = {};
    for (int i = 0; i < states.count; ++i) {
      const State state = at(i);
      const float weight = tile::Exp2Guarded(state.s, max) * factor;
      if (weight == 0) continue;  // a neutral state, whatever its values
      typename T::Vector v;
      float x[T::kVec];
      v.Load(tile::At<T::kDType>(state.v, column));
      v.Widen(x);
#pragma unroll
      for (int j = 0; j < T::kVec; ++j) merged[j] += weight * x[j];
    }
    typename T::Vector v;
    v.Narrow(merged);
    v.Store(tile::At<T::kDType>(out, column));
  }
  __syncwarp();  // every lane has read the scores
  if (lane == 0 && r.s != nullptr) {
    r.s[token * r.s_stride_token + head * r.s_stride_head] = tile::LogSumExp2(max, sum);
  }
}

template <MergeStatesSpec kSpec>
__device__ __forceinline__ void Run(const MergeStatesParams& p) {
  using T = Traits<kSpec>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t row = int64_t{blockIdx.x} * (T::kNumThreads / T::kLanes) + threadIdx.x / T::kLanes;
  const bool has_row = row < p.num_rows;
  const uint32_t at = static_cast<uint32_t>(has_row ? row : 0);
  const uint32_t token = p.num_heads.Divide(at);
  const uint32_t head = at - token * p.num_heads.divisor;
  if (!has_row || (p.mask != nullptr && p.mask[token * p.mask_stride] == 0)) return;
  MergeRow<T>(p, token, head, static_cast<int>(threadIdx.x) % T::kLanes);
}

}  // namespace flashinfer::kernels::merge_states_simt
