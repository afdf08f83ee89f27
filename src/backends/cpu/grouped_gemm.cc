// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows on the CPU: a group's matrix is prepared once for all its rows.
#include "backends/cpu/grouped_gemm.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

/// The value of every code of an fp8 type.
template <class Fp8>
const std::array<float, 256>& ValuesOf() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table{};
    for (size_t i = 0; i < 256; ++i) table[i] = ToFloat(Fp8{static_cast<uint8_t>(i)});
    return table;
  }();
  return values;
}

/// A group's rows of a matrix.
MatrixRows RowsOf(const MatrixRows& whole, int64_t group_offset, int64_t begin, int64_t end) {
  MatrixRows rows = whole;
  rows.data = static_cast<const char*>(whole.data) +
              (group_offset + begin * whole.row_stride) * SizeBytes(whole.dtype);
  rows.rows = end - begin;
  return rows;
}

/// The floats that fp8 elements and scales stand for: products of both are no bf16, so that these
/// matrices multiply as float32. Row 0 of `matrix` is row `first` of what the scales are of.
MatrixRows Dequantised(const MatrixRows& matrix, const ScaleBlocks& scales, int64_t first,
                       std::vector<float>& memory) {
  memory.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  const std::array<float, 256>& values =
      matrix.dtype == DType::kE4M3 ? ValuesOf<E4M3>() : ValuesOf<E5M2>();
  ParallelFor(matrix.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto* codes = static_cast<const uint8_t*>(matrix.data) + i * matrix.row_stride;
      const float* scale = scales.data + (first + i) / scales.rows_per_scale * scales.row_stride;
      float* out = memory.data() + i * matrix.cols;
      for (int64_t col = 0; col < matrix.cols; col += scales.cols_per_scale) {
        const float factor = scale[col / scales.cols_per_scale * scales.col_stride];
        const int64_t stop = std::min(col + scales.cols_per_scale, matrix.cols);
        for (int64_t j = col; j < stop; ++j) out[j] = values[codes[j * matrix.col_stride]] * factor;
      }
    }
  });
  return {memory.data(), DType::kF32, matrix.rows, matrix.cols, matrix.cols, 1};
}

ScaleBlocks OfGroup(ScaleBlocks scales, int64_t group) {
  scales.data += group * scales.group_stride;
  return scales;
}

}  // namespace

bool AcceptsGroupedGemm(const GroupedGemmProblem& p, std::string* why) {
  const GemmProblem product{p.dtype_a, p.dtype_b, p.dtype_out, 1, p.n, p.k};
  return AcceptsGemm(product, why);
}

void GroupedGemm(const GemmKernels& kernels, const GroupedGemmParams& params) {
  const bool has_scales = params.a_scales.data != nullptr;
  std::optional<GemmWeight> weight;
  int64_t prepared = -1;
  std::vector<float> b_memory;
  std::vector<float> a_memory;
  for (const GemmSegment& segment : params.segments) {
    const int64_t group = segment.weight;
    if (group != prepared) {
      MatrixRows b = RowsOf(params.b, group * params.b_group_stride, 0, params.b.rows);
      if (has_scales) b = Dequantised(b, OfGroup(params.b_scales, group), 0, b_memory);
      weight.emplace(kernels, b);
      prepared = group;
    }
    MatrixRows a = RowsOf(params.a, group * params.a_group_stride, segment.begin, segment.end);
    if (has_scales) a = Dequantised(a, OfGroup(params.a_scales, group), segment.begin, a_memory);
    char* out = static_cast<char*>(params.out) +
                (group * params.out_group_stride + segment.begin * params.out_stride) *
                    SizeBytes(params.dtype_out);
    weight->Multiply(a, {.a = a,
                         .b = params.b,
                         .out = out,
                         .out_stride = params.out_stride,
                         .dtype_out = params.dtype_out,
                         .scale = 1.0f});
  }
}

}  // namespace flashinfer::cpu
