// SPDX-License-Identifier: Apache-2.0
// Linear layers of few tokens. A group of threads takes a few rows: each thread a unit of weights
// at a time, 16 bytes of quants, while the next units are on their way; blocks walk on with the
// grid's stride. Activations lie in shared memory, rounded to 8 bits by every block for itself.
// Weights are asked for before the kernel ahead is done. Bound by reading the weights.
#pragma once

#include "kernels/linear/activations.cuh"
#include "kernels/linear/linear_spec.h"
#include "kernels/linear/weight_unit.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::linear_simt {

/// A unit of plain weights.
struct PlainUnit {
  ptx::Words<16> quants;
  __device__ __forceinline__ void Load(const WeightPlanes& planes, uint32_t unit) {
    quants = ptx::ld<16>(planes.quants + uint64_t{unit} * 16);
  }
};

template <bool kIsPlain, WeightFormat kFormat, int kTokens, int kUnits>
struct Types {
  using Unit = linear::WeightUnit<kFormat>;
  using Activations = linear::QuantizedActivations<kFormat, kTokens, kUnits>;
};
template <WeightFormat kFormat, int kTokens, int kUnits>
struct Types<true, kFormat, kTokens, kUnits> {
  using Unit = PlainUnit;
  using Activations = linear::PlainActivations<kFormat, kTokens, kUnits>;
};

template <LinearSimtSpec kSpec>
struct Traits {
  static constexpr LinearSimtSpec kS = kSpec;
  static constexpr WeightFormat kFormat = kSpec.format;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static constexpr int kTokens = kSpec.tokens_tile;
  static constexpr int kRows = kSpec.rows_tile;
  static constexpr int kLanes = kSpec.row_lanes;
  static constexpr int kUnits = static_cast<int>(UnitsOf(kFormat, kSpec.cols));
  static_assert(kSpec.cols > 0 && (IsPlain(kFormat) || kSpec.cols % 32 == 0),
                "cols must be whole units of the format");
  static_assert(kSpec.vector_size == 1 || kSpec.vector_size == 8, "vector_size must be 1 or 8");
  static_assert(kTokens == 1 || kTokens == 2 || kTokens == 4, "tokens_tile must be 1, 2 or 4");
  static_assert(kRows == 1 || kRows == 2 || kRows == 4, "rows_tile must be 1, 2 or 4");
  static_assert(kLanes == 8 || kLanes == 16 || kLanes == 32, "row_lanes must be 8, 16 or 32");
  static_assert(kTokens * kRows <= kLanes, "tokens_tile * rows_tile must be at most row_lanes");
  static_assert(kNumThreads % 32 == 0 && kNumThreads <= 1024,
                "block_threads must be a multiple of 32 up to 1024");
  static constexpr int kIterations = (kUnits + kLanes - 1) / kLanes;
  static constexpr int kHeld = kSpec.units_tile;
  static_assert(kHeld >= 1 && kHeld * kRows <= 8, "units_tile * rows_tile must be 1 to 8");
  static constexpr int kChunks = (kIterations + kHeld - 1) / kHeld;
  using Unit = typename Types<IsPlain(kFormat), kFormat, kTokens, kUnits>::Unit;
  using Activations = typename Types<IsPlain(kFormat), kFormat, kTokens, kUnits>::Activations;
  using Held = Unit[kHeld][kRows];
  static_assert(Activations::kBytes == SmemBytes(kSpec));
};

/// A thread's unit of a row; those past the row's end read its last one, and do not count.
template <class T>
__device__ __forceinline__ int UnitOf(int chunk, int i) {
  return (chunk * T::kHeld + i) * T::kLanes + static_cast<int>(threadIdx.x) % T::kLanes;
}

template <class T>
__device__ __forceinline__ void LoadUnits(const LinearParams& p, int first_row, int chunk,
                                          typename T::Held& held) {
#pragma unroll
  for (int i = 0; i < T::kHeld; ++i) {
    const int unit = min(UnitOf<T>(chunk, i), T::kUnits - 1);
#pragma unroll
    for (int r = 0; r < T::kRows; ++r) {
      const int row = min(first_row + r, p.num_rows - 1);
      held[i][r].Load(p.weight, static_cast<uint32_t>(row) * T::kUnits + unit);
    }
  }
}

/// sums += weights · activations of one unit, quantised weights.
template <class T>
__device__ __forceinline__ void MultiplyQuantized(const typename T::Unit (&units)[T::kRows],
                                                  bool counts, int unit,
                                                  const typename T::Activations& activations,
                                                  float (&sums)[T::kTokens][T::kRows]) {
  linear::QuantWords words[T::kRows][4];
  linear::UnitScales scales[T::kRows];
#pragma unroll
  for (int r = 0; r < T::kRows; ++r) {
#pragma unroll
    for (int j = 0; j < 4; ++j) words[r][j] = units[r].Words(j);
    scales[r] = units[r].Scales();
    if (!counts) scales[r] = {0, 0};
  }
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
    const auto low = ptx::ld<16>(activations.Low(t, unit));
    const auto high = ptx::ld<16>(activations.High(t, unit));
    const float x_scale = *activations.Scale(t, unit);
#pragma unroll
    for (int r = 0; r < T::kRows; ++r) {
      int32_t low_dot = 0;
      int32_t high_dot = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        low_dot = ptx::dp4a_s32(words[r][j].low, low.w[j], low_dot);
        high_dot = ptx::dp4a_s32(words[r][j].high, high.w[j], high_dot);
      }
      float& sum = sums[t][r];
      const linear::UnitScales& s = scales[r];
      if constexpr (T::kFormat == WeightFormat::kQ6_K) {
        const float first = x_scale * static_cast<float>(low_dot) + *activations.Sum(t, unit, 0);
        const float second = x_scale * static_cast<float>(high_dot) + *activations.Sum(t, unit, 1);
        sum += s.scale * first + s.minimum * second;
      } else {
        float dot = x_scale * static_cast<float>(low_dot + high_dot);
        if constexpr (QuantOffset(T::kFormat) > 0) dot += *activations.Sum(t, unit);
        sum += s.scale * dot;
        if constexpr (HasMinimum(T::kFormat)) sum += s.minimum * *activations.Sum(t, unit);
      }
    }
  }
}

/// The same of plain weights.
template <class T>
__device__ __forceinline__ void MultiplyPlain(const typename T::Unit (&units)[T::kRows],
                                              bool counts, int unit,
                                              const typename T::Activations& activations,
                                              float (&sums)[T::kTokens][T::kRows]) {
  constexpr DType kDType = T::kFormat == WeightFormat::kF32   ? DType::kF32
                           : T::kFormat == WeightFormat::kF16 ? DType::kF16
                                                              : DType::kBF16;
  constexpr int kPerWord = 4 / tile::SizeBytes(kDType);
  float weights[T::kRows][4 * kPerWord];
#pragma unroll
  for (int r = 0; r < T::kRows; ++r) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      tile::WidenWord<kDType>(counts ? units[r].quants.w[j] : 0u, weights[r] + j * kPerWord);
    }
  }
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
#pragma unroll
    for (int plane = 0; plane < kPerWord; ++plane) {
      const float4 x = *activations.Values(t, unit, plane);
#pragma unroll
      for (int r = 0; r < T::kRows; ++r) {
        const float* w = weights[r] + 4 * plane;
        sums[t][r] += w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void Multiply(const typename T::Held& held, int chunk,
                                         const typename T::Activations& activations,
                                         float (&sums)[T::kTokens][T::kRows]) {
#pragma unroll
  for (int i = 0; i < T::kHeld; ++i) {
    const int unit = UnitOf<T>(chunk, i);
    constexpr bool kAllCount = T::kUnits % (T::kLanes * T::kHeld) == 0;
    const bool counts = kAllCount || unit < T::kUnits;
    const int at = kAllCount ? unit : min(unit, T::kUnits - 1);
    if constexpr (IsPlain(T::kFormat)) {
      MultiplyPlain<T>(held[i], counts, at, activations, sums);
    } else {
      MultiplyQuantized<T>(held[i], counts, at, activations, sums);
    }
  }
}

/// Adds up the group's sums; each of its first threads stores one output.
template <class T>
__device__ __forceinline__ void StoreOutputs(const LinearParams& p, int first_token, int first_row,
                                             float (&sums)[T::kTokens][T::kRows]) {
  const int lane = static_cast<int>(threadIdx.x) % T::kLanes;
  float mine = 0;
#pragma unroll
  for (int t = 0; t < T::kTokens; ++t) {
#pragma unroll
    for (int r = 0; r < T::kRows; ++r) {
      const float sum = tile::WarpSum<T::kLanes>(sums[t][r]);
      if (lane == t * T::kRows + r) mine = sum;
    }
  }
  const int token = first_token + lane / T::kRows;
  const int row = first_row + lane % T::kRows;
  if (lane >= T::kTokens * T::kRows || token >= p.num_tokens || row >= p.num_rows) return;
  mine *= p.scale;
  if (p.bias != nullptr) mine += p.bias[row];
  if (p.residual != nullptr) {
    mine += tile::LoadElement<T::kS.dtype_out>(p.residual, token * p.residual_stride + row);
  }
  tile::StoreElement<T::kS.dtype_out>(p.out, token * p.out_stride + row, mine);
}

template <LinearSimtSpec kSpec>
__device__ __forceinline__ void Run(const LinearParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  const typename T::Activations activations(shared_memory);
  constexpr int kGroups = T::kNumThreads / T::kLanes;
  const int step = static_cast<int>(gridDim.x) * kGroups * T::kRows;
  int row = (static_cast<int>(blockIdx.x) * kGroups + static_cast<int>(threadIdx.x) / T::kLanes) *
            T::kRows;
  typename T::Held held;
  LoadUnits<T>(p, row, 0, held);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int first_token = static_cast<int>(blockIdx.y) * T::kTokens;
  const void* x = tile::At<kSpec.dtype_x>(p.x, first_token * p.x_stride);
  if constexpr (IsPlain(T::kFormat)) {
    activations.template Fill<kSpec.dtype_x, kSpec.vector_size, T::kNumThreads>(
        x, p.x_stride, p.num_tokens - first_token, kSpec.cols);
  } else {
    activations.template Fill<kSpec.dtype_x, kSpec.vector_size, T::kNumThreads>(
        x, p.x_stride, p.num_tokens - first_token);
  }
  __syncthreads();
  // Groups of a warp go round together, for the shuffles.
  constexpr int kWarpRows = 32 / T::kLanes * T::kRows;
  for (int warp_row = row / kWarpRows * kWarpRows; warp_row < p.num_rows;
       warp_row += step, row += step) {
    float sums[T::kTokens][T::kRows] = {};
    for (int chunk = 0; chunk < T::kChunks; ++chunk) {
      typename T::Held next;
      const bool is_last = chunk + 1 == T::kChunks;
      if (!is_last || warp_row + step < p.num_rows) {
        LoadUnits<T>(p, is_last ? row + step : row, is_last ? 0 : chunk + 1, next);
      }
      Multiply<T>(held, chunk, activations, sums);
#pragma unroll
      for (int i = 0; i < T::kHeld; ++i) {
#pragma unroll
        for (int r = 0; r < T::kRows; ++r) held[i][r] = next[i][r];
      }
    }
    StoreOutputs<T>(p, first_token, row, sums);
  }
}

}  // namespace flashinfer::kernels::linear_simt
