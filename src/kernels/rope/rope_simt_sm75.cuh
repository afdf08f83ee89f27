// SPDX-License-Identifier: Apache-2.0
// RoPE: a thread computes the angles of a few pairs of one token, and rotates them in several
// heads. Nothing is shared; bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/rope/rope_spec.h"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::rope_simt {

template <RopeSpec kSpec>
struct Traits {
  static constexpr RopeSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kHeads = kSpec.heads_per_thread;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kHeads >= 1 && kHeads <= 8, "heads_per_thread must be 1 to 8");
  static_assert(kSpec.dtype_ids == DType::kI32 || kSpec.dtype_ids == DType::kI64,
                "dtype_ids must be i32 or i64");
  using In = tile::Elements<kSpec.dtype, kVec>;
  using Out = tile::Elements<kSpec.dtype_out, kVec>;
};

template <class T>
__device__ __forceinline__ int64_t PositionOf(const RopeParams& p, int64_t token) {
  if (p.ids != nullptr) {
    const int64_t at = token * p.ids_stride;
    if constexpr (T::kS.dtype_ids == DType::kI64) return static_cast<const int64_t*>(p.ids)[at];
    return static_cast<const int32_t*>(p.ids)[at];
  }
  // The last request that begins at or before the token.
  int32_t low = 0;
  int32_t high = p.num_requests - 1;
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (p.indptr[middle] <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return p.offsets[low] + (token - p.indptr[low]);
}

/// Sine and cosine of an angle counted in turns, |x| <= 1/2.
template <class T>
__device__ __forceinline__ void SinCosOfTurns(float x, float& sine, float& cosine) {
  if constexpr (T::kS.dtype == DType::kF32) {
    sincospif(2.0f * x, &sine, &cosine);
  } else {
    __sincosf(6.283185307f * x, &sine, &cosine);  // within 2^-20, a hundredth of an f16's half ulp
  }
}

/// Angles of pairs first_pair to first_pair + kVec at a position.
template <class T>
__device__ __forceinline__ void ComputeAngles(const RopeParams& p, int64_t position, int first_pair,
                                              float (&sine)[T::kVec], float (&cosine)[T::kVec]) {
#pragma unroll
  for (int j = 0; j < T::kVec; ++j) {
    const int pair = first_pair + j;
    if constexpr (T::kS.has_cache) {
      const float* row = p.cache + position * p.cache_stride;
      cosine[j] = row[pair];
      sine[j] = row[p.num_pairs + pair];
    } else {
      uint64_t step = p.turns[pair];
      if constexpr (T::kS.has_factors) {
        const double turns = __longlong_as_double(static_cast<long long>(step)) /
                             static_cast<double>(p.frequency_factors[pair]);
        step = static_cast<uint64_t>((turns - floor(turns)) * 0x1p64);
      }
      // Whole turns drop out of the 64 bits: exact for positions of any size.
      const uint64_t phase = static_cast<uint64_t>(position) * step;
      const int32_t top = static_cast<int32_t>((phase + 0x80000000u) >> 32);
      SinCosOfTurns<T>(static_cast<float>(top) * 0x1p-32f, sine[j], cosine[j]);
    }
    sine[j] *= p.magnitude;
    cosine[j] *= p.magnitude;
  }
}

/// Turns kVec pairs, which two accesses hold.
template <class T>
__device__ __forceinline__ void Rotate(const float (&sine)[T::kVec], const float (&cosine)[T::kVec],
                                       float (&first)[T::kVec], float (&second)[T::kVec]) {
  constexpr int kVec = T::kVec;
  float x[2 * kVec];
#pragma unroll
  for (int j = 0; j < kVec; ++j) x[j] = first[j], x[kVec + j] = second[j];
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    float& u = T::kS.interleaved ? x[2 * j] : x[j];
    float& v = T::kS.interleaved ? x[2 * j + 1] : x[kVec + j];
    const float rotated = u * cosine[j] - v * sine[j];
    v = v * cosine[j] + u * sine[j];
    u = rotated;
  }
#pragma unroll
  for (int j = 0; j < kVec; ++j) first[j] = x[j], second[j] = x[kVec + j];
}

template <class T>
__device__ __forceinline__ const char* InAt(const RopeHeadsParams& h, int64_t token, int64_t head,
                                            int element) {
  return tile::At<T::kS.dtype>(h.in, token * h.in_stride_token + head * h.in_stride_head + element);
}

template <class T>
__device__ __forceinline__ void StoreScaled(const RopeHeadsParams& h, int64_t token, int64_t head,
                                            int element, float (&x)[T::kVec]) {
  if constexpr (tile::SizeBytes(T::kS.dtype_out) == 1) {
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) x[j] *= h.quant_scale;
  }
  typename T::Out out;
  out.Narrow(x);
  out.Store(tile::At<T::kS.dtype_out>(
      h.out, token * h.out_stride_token + head * h.out_stride_head + element));
}

/// Rotates the pairs from first_pair on in heads first_head on.
template <class T>
__device__ __forceinline__ void RotateHeads(const RopeParams& p, const RopeHeadsParams& h,
                                            int64_t token, int first_head, int first_pair) {
  // Elements of the two accesses: neighbours, or half a head apart.
  const int first = T::kS.interleaved ? 2 * first_pair : first_pair;
  const int second = T::kS.interleaved ? first + T::kVec : first + p.num_pairs;
  typename T::In a[T::kHeads];
  typename T::In b[T::kHeads];
#pragma unroll
  for (int i = 0; i < T::kHeads; ++i) {
    if (first_head + i >= h.num_heads) break;
    a[i].Load(InAt<T>(h, token, first_head + i, first));
    b[i].Load(InAt<T>(h, token, first_head + i, second));
  }
  float sine[T::kVec];
  float cosine[T::kVec];
  ComputeAngles<T>(p, PositionOf<T>(p, token), first_pair, sine, cosine);
#pragma unroll
  for (int i = 0; i < T::kHeads; ++i) {
    if (first_head + i >= h.num_heads) break;
    float x[T::kVec];
    float y[T::kVec];
    a[i].Widen(x);
    b[i].Widen(y);
    Rotate<T>(sine, cosine, x, y);
    StoreScaled<T>(h, token, first_head + i, first, x);
    StoreScaled<T>(h, token, first_head + i, second, y);
  }
}

/// Copies an access that is not rotated.
template <class T>
__device__ __forceinline__ void CopyHeads(const RopeHeadsParams& h, int64_t token, int first_head,
                                          int element) {
  if (element >= h.end) return;
  for (int head = first_head; head < min(first_head + T::kHeads, h.num_heads); ++head) {
    typename T::In in;
    float x[T::kVec];
    in.Load(InAt<T>(h, token, head, element));
    in.Widen(x);
    StoreScaled<T>(h, token, head, element, x);
  }
}

template <RopeSpec kSpec>
__device__ __forceinline__ void Run(const RopeParams& p) {
  using T = Traits<kSpec>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const uint32_t unit = blockIdx.y * T::kNumThreads + threadIdx.x;
  const uint32_t group = p.units_per_group.Divide(unit);
  const int access = static_cast<int>(unit - group * p.units_per_group.divisor);
  const uint32_t local_token = p.groups_per_token.Divide(group);
  int in_token = static_cast<int>(group - local_token * p.groups_per_token.divisor);
  const int64_t token = int64_t{blockIdx.x} * p.tokens_per_block + local_token;
  if (static_cast<int>(local_token) >= p.tokens_per_block || token >= p.num_tokens) return;
  int part = 0;
  while (part < 3 && in_token >= p.heads[part].num_groups) in_token -= p.heads[part++].num_groups;
  const RopeHeadsParams& h = p.heads[part];
  const int first_head = in_token * T::kHeads;
  const int num_rotated = part < 2 ? p.num_pairs / T::kVec : 0;
  if (access < num_rotated) {
    RotateHeads<T>(p, h, token, first_head, access * T::kVec);
  } else {
    CopyHeads<T>(h, token, first_head, h.first_copied + (access - num_rotated) * T::kVec);
  }
}

}  // namespace flashinfer::kernels::rope_simt
