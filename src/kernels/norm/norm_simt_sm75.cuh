// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm: a group of threads takes a row, keeps it in registers, and walks on with
// the grid's stride; the next row is on its way while this one is reduced. Bound by bytes.
#pragma once

#include "kernels/norm/norm_spec.h"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::norm_simt {

template <NormSpec kSpec>
struct Traits {
  static constexpr NormSpec kS = kSpec;
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kRowThreads = kSpec.row_threads;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static constexpr int kRowsPerBlock = NormRowsPerBlock(kSpec);
  static constexpr int kNumVectors = kSpec.num_vectors;
  static_assert(kVec == 1 || kVec == 2 || kVec == 4 || kVec == 8,
                "vector_size must be 1, 2, 4 or 8");
  static_assert(kRowThreads >= 32 && kRowThreads <= 1024 && (kRowThreads & (kRowThreads - 1)) == 0,
                "row_threads must be a power of two from 32 to 1024");
  static_assert(kNumVectors >= 0 && kNumVectors * kVec <= 64,
                "num_vectors * vector_size must be 0 to 64: a row lives in registers");
  using In = tile::Elements<kSpec.dtype, kVec>;
  using Weight = tile::Elements<kSpec.dtype_weight, kVec>;
  using Out = tile::Elements<kSpec.dtype_out, kVec>;
  struct SharedStorage {
    float partials[2][32];
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// Where a row's tensors begin.
struct Row {
  const char* x;
  char* residual;
  char* out;
};

template <class T>
__device__ __forceinline__ Row RowAt(const NormParams& p, int64_t row) {
  // Division of 64-bit integers is slow: almost always there is one inner row.
  const int64_t outer = p.num_inner == 1 ? row : row / p.num_inner;
  const int64_t inner = row - outer * p.num_inner;
  Row r;
  r.x = tile::At<T::kS.dtype>(p.x, outer * p.x_stride_outer + inner * p.x_stride_inner);
  r.out = tile::At<T::kS.dtype_out>(p.out, outer * p.out_stride_outer + inner * p.out_stride_inner);
  if constexpr (T::kS.has_residual) {
    r.residual = tile::At<T::kS.dtype>(
        p.residual, outer * p.residual_stride_outer + inner * p.residual_stride_inner);
  }
  return r;
}

/// Sum over the threads of a row.
template <class T>
__device__ __forceinline__ float RowSum(float x, float* partials) {
  if constexpr (T::kRowThreads == 32) return tile::WarpSum(x);
  return tile::BlockSum<T::kRowThreads>(x, partials);
}

template <class T>
struct Mean {
  float mean;
  float scale;  ///< 1 / standard deviation, or 1 / root mean square
};

/// First element of a thread's i-th access.
template <class T>
__device__ __forceinline__ int ColumnOf(int i) {
  return (i * T::kRowThreads + static_cast<int>(threadIdx.x) % T::kRowThreads) * T::kVec;
}

/// x (plus residual), widened; the sum goes to the residual.
template <class T>
__device__ __forceinline__ void Widen(const typename T::In& x, const typename T::In& residual,
                                      const Row& row, int column, float (&values)[T::kVec]) {
  x.Widen(values);
  if constexpr (T::kS.has_residual) {
    float other[T::kVec];
    residual.Widen(other);
#pragma unroll
    for (int j = 0; j < T::kVec; ++j) values[j] += other[j];
    typename T::In sum;
    sum.Narrow(values);
    sum.Store(tile::At<T::kS.dtype>(row.residual, column));
  }
}

/// (x - mean) · scale · weight + bias, narrowed and stored.
template <class T>
__device__ __forceinline__ void StoreNormalised(const NormParams& p, const Row& row, int column,
                                                const float (&x)[T::kVec], float mean, float scale,
                                                const typename T::Weight& weight,
                                                float out_factor) {
  float w[T::kVec];
  weight.Widen(w);
  float bias[T::kVec] = {};
  if constexpr (T::kS.centered) {
    typename T::Weight b;
    b.Load(tile::At<T::kS.dtype_weight>(p.bias, column));
    b.Widen(bias);
  }
  float y[T::kVec];
#pragma unroll
  for (int j = 0; j < T::kVec; ++j) {
    const float centered = T::kS.centered ? x[j] - mean : x[j];
    y[j] = centered * scale * (w[j] + p.weight_offset);
    if constexpr (T::kS.centered) y[j] += bias[j];
    if constexpr (tile::SizeBytes(T::kS.dtype_out) == 1) y[j] *= out_factor;
  }
  typename T::Out narrow;
  narrow.Narrow(y);
  narrow.Store(tile::At<T::kS.dtype_out>(row.out, column));
}

/// 1 over the scales that an 8-bit output is divided by.
template <class T>
__device__ __forceinline__ float OutFactor(const NormParams& p) {
  if constexpr (tile::SizeBytes(T::kS.dtype_out) != 1) return 1.0f;
  const float scale = p.scale == nullptr ? 1.0f : *p.scale;
  return 1.0f / (scale * p.host_scale);
}

/// Rows that fit into registers.
template <class T>
__device__ __forceinline__ void RunRows(const NormParams& p, typename T::SharedStorage& shared) {
  constexpr int kN = T::kNumVectors;
  typename T::Weight weight[kN];
  typename T::In x[kN];
  typename T::In residual[kN];
  const int64_t first = int64_t{blockIdx.x} * T::kRowsPerBlock + threadIdx.x / T::kRowThreads;
  const int64_t step = int64_t{gridDim.x} * T::kRowsPerBlock;
  const auto load = [&](int64_t row) {
    const Row r = RowAt<T>(p, row);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const int column = ColumnOf<T>(i);
      if (column >= p.hidden_size) continue;
      x[i].Load(tile::At<T::kS.dtype>(r.x, column));
      if constexpr (T::kS.has_residual) residual[i].Load(tile::At<T::kS.dtype>(r.residual, column));
    }
  };
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int column = ColumnOf<T>(i);
    if (column < p.hidden_size) weight[i].Load(tile::At<T::kS.dtype_weight>(p.weight, column));
  }
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (first < p.num_rows) load(first);
  const float out_factor = OutFactor<T>(p);
  const float inverse_size = 1.0f / static_cast<float>(p.hidden_size);
  int parity = 0;
  for (int64_t at = first; at < p.num_rows; at += step, parity ^= 1) {
    const Row row = RowAt<T>(p, at);
    float values[kN][T::kVec];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const int column = ColumnOf<T>(i);
      if (column >= p.hidden_size) continue;
      Widen<T>(x[i], residual[i], row, column, values[i]);
#pragma unroll
      for (int j = 0; j < T::kVec; ++j) {
        sum += T::kS.centered ? values[i][j] : values[i][j] * values[i][j];
      }
    }
    if (at + step < p.num_rows) load(at + step);
    float mean = 0;
    float square = RowSum<T>(sum, shared.partials[parity]) * inverse_size;
    if constexpr (T::kS.centered) {
      mean = square;
      sum = 0;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        if (ColumnOf<T>(i) >= p.hidden_size) continue;
#pragma unroll
        for (int j = 0; j < T::kVec; ++j) sum += (values[i][j] - mean) * (values[i][j] - mean);
      }
      if constexpr (T::kRowThreads > 32) __syncthreads();
      square = RowSum<T>(sum, shared.partials[parity]) * inverse_size;
    }
    const float scale = rsqrtf(square + p.eps);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const int column = ColumnOf<T>(i);
      if (column >= p.hidden_size) continue;
      StoreNormalised<T>(p, row, column, values[i], mean, scale, weight[i], out_factor);
    }
  }
}

/// Rows of any length: read for the sums, and again for the output.
template <class T>
__device__ __forceinline__ void RunLongRows(const NormParams& p,
                                            typename T::SharedStorage& shared) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const float out_factor = OutFactor<T>(p);
  const float inverse_size = 1.0f / static_cast<float>(p.hidden_size);
  const int64_t first = int64_t{blockIdx.x} * T::kRowsPerBlock + threadIdx.x / T::kRowThreads;
  for (int64_t at = first; at < p.num_rows; at += int64_t{gridDim.x} * T::kRowsPerBlock) {
    const Row row = RowAt<T>(p, at);
    // The residual's new values are read back in later passes, by the thread that wrote them.
    const auto for_each = [&](bool is_first, const auto& visit) {
      for (int column = ColumnOf<T>(0); column < p.hidden_size;
           column += T::kRowThreads * T::kVec) {
        typename T::In x;
        typename T::In residual;
        float values[T::kVec];
        if (T::kS.has_residual && !is_first) {
          x.Load(tile::At<T::kS.dtype>(row.residual, column));
          x.Widen(values);
        } else {
          x.Load(tile::At<T::kS.dtype>(row.x, column));
          if constexpr (T::kS.has_residual) {
            residual.Load(tile::At<T::kS.dtype>(row.residual, column));
          }
          Widen<T>(x, residual, row, column, values);
        }
        visit(column, values);
      }
    };
    float sum = 0;
    for_each(true, [&](int, const float(&v)[T::kVec]) {
      for (float x : v) sum += T::kS.centered ? x : x * x;
    });
    float mean = 0;
    float square = RowSum<T>(sum, shared.partials[0]) * inverse_size;
    if constexpr (T::kS.centered) {
      mean = square;
      sum = 0;
      for_each(false, [&](int, const float(&v)[T::kVec]) {
        for (float x : v) sum += (x - mean) * (x - mean);
      });
      square = RowSum<T>(sum, shared.partials[1]) * inverse_size;
    }
    const float scale = rsqrtf(square + p.eps);
    for_each(false, [&](int column, const float(&v)[T::kVec]) {
      typename T::Weight weight;
      weight.Load(tile::At<T::kS.dtype_weight>(p.weight, column));
      StoreNormalised<T>(p, row, column, v, mean, scale, weight, out_factor);
    });
    if constexpr (T::kRowThreads > 32) __syncthreads();
  }
}

template <NormSpec kSpec>
__device__ __forceinline__ void Run(const NormParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  if constexpr (T::kNumVectors > 0) {
    RunRows<T>(p, shared);
  } else {
    RunLongRows<T>(p, shared);
  }
}

}  // namespace flashinfer::kernels::norm_simt
