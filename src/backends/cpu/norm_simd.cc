// SPDX-License-Identifier: Apache-2.0
// Rows of the norms: passes for the sums, while the row stays in the cache, and one to write. Bound
// by memory.
#include "backends/cpu/norm.h"
#include "backends/cpu/simd/row_vectors.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

/// x.
template <class T>
struct Plain {
  const T* x;
  template <class Lanes>
  F32 At(int64_t i, Lanes lanes) const {
    return lanes.LoadFrom(x + i);
  }
  template <class Lanes>
  F32 Take(int64_t i, Lanes lanes) const {
    return At(i, lanes);
  }
};

/// x + residual. The sum is made again in the pass that writes, which keeps it unrounded without
/// memory for a row of floats.
template <class T>
struct Added {
  const T* x;
  T* residual;
  template <class Lanes>
  F32 At(int64_t i, Lanes lanes) const {
    return lanes.LoadFrom(x + i) + lanes.LoadFrom(residual + i);
  }
  template <class Lanes>
  F32 Take(int64_t i, Lanes lanes) const {
    const F32 sum = At(i, lanes);
    lanes.StoreTo(residual + i, sum);
    return sum;
  }
};

/// Sum over the row of what `add(i, lanes, sum)` adds; it adds 0 in lanes beyond the row.
template <class Add>
inline float SumOf(int64_t size, Add add) {
  F32 sum0 = F32::Set(0.0f);
  F32 sum1 = F32::Set(0.0f);
  int64_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    sum0 = add(i, AllLanes(), sum0);
    sum1 = add(i + kWidth, AllLanes(), sum1);
  }
  for (; i < size; i += kWidth) {
    sum0 = add(i, SomeLanes{size - i < kWidth ? static_cast<int>(size - i) : kWidth}, sum0);
  }
  return Sum(sum0 + sum1);
}

template <class Row>
inline float SumOfSquares(const Row& row, int64_t size) {
  return SumOf(size, [&](int64_t i, auto lanes, F32 sum) {
    const F32 x = row.At(i, lanes);
    return Fma(x, x, sum);
  });
}

/// What the rows of a call share.
struct Shared {
  int64_t size;
  float eps;
  float factor;         // 1 / out_scale
  float weight_offset;  // 1 for kGemma
  bool streams;
};

inline float ScaleOf(float sum_of_squares, const Shared& s) {
  return s.factor / __builtin_sqrtf(sum_of_squares / static_cast<float>(s.size) + s.eps);
}

template <class Row, class W, class O>
void RmsRow(const Row& row, const W* weight, O* out, const Shared& s) {
  const F32 scale = F32::Set(ScaleOf(SumOfSquares(row, s.size), s));
  const F32 offset = F32::Set(s.weight_offset);
  ForEachVectorTo(out, s.streams, s.size, [&](int64_t i, auto lanes) {
    const F32 factor = lanes.LoadFrom(weight + i) + offset;
    lanes.StreamTo(out + i, row.Take(i, lanes) * scale * factor);
  });
}

template <class T, class W, class O>
void LayerRow(const T* x, const W* weight, const W* bias, O* out, const Shared& s) {
  const float sum = SumOf(
      s.size, [&](int64_t i, auto lanes, F32 so_far) { return so_far + lanes.LoadFrom(x + i); });
  const F32 mean = F32::Set(sum / static_cast<float>(s.size));
  const float squares = SumOf(s.size, [&](int64_t i, auto lanes, F32 so_far) {
    const F32 d = lanes.Only(lanes.LoadFrom(x + i) - mean);
    return Fma(d, d, so_far);
  });
  const F32 scale = F32::Set(ScaleOf(squares, s));
  const F32 factor = F32::Set(s.factor);
  ForEachVectorTo(out, s.streams, s.size, [&](int64_t i, auto lanes) {
    const F32 normal = (lanes.LoadFrom(x + i) - mean) * scale;
    const F32 shift = lanes.LoadFrom(bias + i) * factor;
    lanes.StreamTo(out + i, Fma(normal, lanes.LoadFrom(weight + i), shift));
  });
}

template <class T>
T* RowAt(const NormRows& rows, int64_t outer, int64_t inner) {
  return static_cast<T*>(rows.data) + outer * rows.stride_outer + inner * rows.stride_inner;
}

template <class T, class W, class O>
void Rows(const NormParams& p, int64_t begin, int64_t end) {
  const float out_scale = p.out_scale_data == nullptr ? p.out_scale : *p.out_scale_data;
  const int64_t out_bytes = p.num_outer * p.num_inner * p.hidden_size * int64_t{sizeof(O)};
  const Shared shared{.size = p.hidden_size,
                      .eps = p.eps,
                      .factor = 1.0f / out_scale,
                      .weight_offset = p.kind == NormKind::kGemma ? 1.0f : 0.0f,
                      .streams = p.out.data != p.x.data && StreamsOutput(out_bytes)};
  const W* weight = static_cast<const W*>(p.weight);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t outer = row / p.num_inner;
    const int64_t inner = row % p.num_inner;
    const T* x = RowAt<T>(p.x, outer, inner);
    O* out = RowAt<O>(p.out, outer, inner);
    if (p.kind == NormKind::kLayer) {
      LayerRow(x, weight, static_cast<const W*>(p.bias), out, shared);
    } else if (p.residual.data != nullptr) {
      RmsRow(Added<T>{x, RowAt<T>(p.residual, outer, inner)}, weight, out, shared);
    } else {
      RmsRow(Plain<T>{x}, weight, out, shared);
    }
  }
  if (shared.streams) FinishStreams();
}

template <class T, class W>
void RowsTo(const NormParams& p, int64_t begin, int64_t end) {
  if (p.dtype_out == DType::kE4M3) return Rows<T, W, E4M3>(p, begin, end);
  if (p.dtype_out == DType::kE5M2) return Rows<T, W, E5M2>(p, begin, end);
  Rows<T, W, T>(p, begin, end);
}

template <class T>
void RowsOf(const NormParams& p, int64_t begin, int64_t end) {
  if (p.dtype_weight == DType::kF32) return RowsTo<T, float>(p, begin, end);
  RowsTo<T, T>(p, begin, end);
}

}  // namespace

void NormRowRange(const NormParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return RowsOf<float>(p, begin, end);
  if (p.dtype == DType::kF16) return RowsOf<F16>(p, begin, end);
  RowsOf<BF16>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
