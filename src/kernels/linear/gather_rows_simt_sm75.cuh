// SPDX-License-Identifier: Apache-2.0
// Rows of a weight matrix, dequantised: a block takes a token, a thread eight values at a time.
#pragma once

#include "kernels/linear/gather_rows_spec.h"
#include "kernels/linear/weight_unit.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::gather_rows_simt {

template <GatherRowsSpec kSpec>
struct Traits {
  static constexpr GatherRowsSpec kS = kSpec;
  static constexpr WeightFormat kFormat = kSpec.format;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static_assert(kSpec.vector_size == 1 || kSpec.vector_size == 4, "vector_size must be 1 or 4");
};

template <class T>
__device__ __forceinline__ void StoreFour(void* out, int64_t at, const float (&values)[4]) {
  if constexpr (T::kS.vector_size == 4) {
    tile::Elements<T::kS.dtype_out, 4> elements;
    elements.Narrow(values);
    elements.Store(tile::At<T::kS.dtype_out>(out, at));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile::StoreElement<T::kS.dtype_out>(out, at + i, values[i]);
  }
}

/// scale · (quant - offset) + minimum for four signed bytes.
template <class T>
__device__ __forceinline__ void Dequantize(uint32_t quants, float scale, float minimum,
                                           float (&values)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto quant = static_cast<int8_t>(quants >> (8 * i));
    values[i] = scale * static_cast<float>(quant - QuantOffset(T::kFormat)) + minimum;
  }
}

template <class T>
__device__ __forceinline__ void GatherQuantized(const GatherRowsParams& p, int64_t row,
                                                int64_t out_at) {
  const int units = p.cols / 32;
  for (int i = static_cast<int>(threadIdx.x); i < units * 4; i += T::kNumThreads) {
    const int unit = i / 4;
    const int j = i % 4;
    linear::WeightUnit<T::kFormat> weights;
    weights.Load(p.weight, row * units + unit);
    // The word by comparison: registers have no addresses.
    uint32_t quants = weights.quants.w[0];
#pragma unroll
    for (int k = 1; k < 4; ++k) quants = j == k ? weights.quants.w[k] : quants;
    linear::QuantWords words;
    if constexpr (T::kFormat == WeightFormat::kQ8_0) {
      words = {quants, weights.extra.w[0]};
#pragma unroll
      for (int k = 1; k < 4; ++k) words.high = j == k ? weights.extra.w[k] : words.high;
    } else {
      words = linear::Expand<T::kFormat>(quants, weights.extra.w, j);
    }
    const linear::UnitScales s = weights.Scales();
    constexpr bool kIsHalved = T::kFormat == WeightFormat::kQ6_K;
    float values[4];
    Dequantize<T>(words.low, s.scale, kIsHalved ? 0 : s.minimum, values);
    StoreFour<T>(p.out, out_at + unit * 32 + 4 * j, values);
    Dequantize<T>(words.high, kIsHalved ? s.minimum : s.scale, kIsHalved ? 0 : s.minimum, values);
    StoreFour<T>(p.out, out_at + unit * 32 + 16 + 4 * j, values);
  }
}

template <class T>
__device__ __forceinline__ void GatherPlain(const GatherRowsParams& p, int64_t row,
                                            int64_t out_at) {
  constexpr DType kDType = T::kFormat == WeightFormat::kF32   ? DType::kF32
                           : T::kFormat == WeightFormat::kF16 ? DType::kF16
                                                              : DType::kBF16;
  const char* weights = p.weight.quants + row * UnitsOf(T::kFormat, p.cols) * 16;
  for (int column = static_cast<int>(threadIdx.x); column < p.cols; column += T::kNumThreads) {
    tile::StoreElement<T::kS.dtype_out>(p.out, out_at + column,
                                        tile::LoadElement<kDType>(weights, column));
  }
}

template <GatherRowsSpec kSpec>
__device__ __forceinline__ void Run(const GatherRowsParams& p) {
  using T = Traits<kSpec>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int id = p.ids[blockIdx.x * p.ids_stride];
  const int64_t out_at = blockIdx.x * p.out_stride;
  if (id < 0 || id >= p.end_row) {
    if (p.first_row != 0) return;
    for (int column = static_cast<int>(threadIdx.x); column < p.cols; column += T::kNumThreads) {
      tile::StoreElement<kSpec.dtype_out>(p.out, out_at + column, __uint_as_float(0x7fffffffu));
    }
    return;
  }
  if (id < p.first_row || id - p.first_row >= p.num_rows) return;
  if constexpr (IsPlain(T::kFormat)) {
    GatherPlain<T>(p, id - p.first_row, out_at);
  } else {
    GatherQuantized<T>(p, id - p.first_row, out_at);
  }
}

}  // namespace flashinfer::kernels::gather_rows_simt
