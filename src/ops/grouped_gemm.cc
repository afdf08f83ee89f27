// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows with a matrix each: check, list the groups' rows, choose, run.
#include "ops/grouped_gemm.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Of any of the functions.
struct Arguments {
  const TensorView& a;
  const TensorView& b;
  const TensorView& out;
  const BlockScales& scales;
};

void CheckMatrices(const Arguments& x, int rank) {
  CheckTensor("a", x.a).OnCpuAlone().IsOneOf(
      {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3, DType::kE5M2});
  CheckTensor("a", x.a).Rank(rank);
  const bool is_fp8 = IsFp8(x.a.dtype());
  CheckTensor("b", x.b).On({});
  if (is_fp8) {
    CheckTensor("b", x.b).IsOneOf({DType::kE4M3, DType::kE5M2});
    CheckTensor("out", x.out).IsOneOf({DType::kF32, DType::kF16, DType::kBF16});
  } else {
    CheckTensor("b", x.b).Is(x.a.dtype());
    CheckTensor("out", x.out).IsOneOf({x.a.dtype(), DType::kF32});
  }
  const int64_t k = x.a.shape(rank - 1);
  CheckTensor("b", x.b).Shape({rank == 3 ? x.a.shape(0) : -1, -1, k});
  FLASHINFER_CHECK(k > 0, "a: last dimension is 0, expected 1 or more");
  Dims out_shape = x.a.shape();
  out_shape[rank - 1] = x.b.shape(1);
  CheckTensor("out", x.out).On({}).Shape(out_shape).LastDimDense().NoOverlap();
  CheckTensor("out", x.out).Apart("a", x.a).Apart("b", x.b);
}

void CheckScales(const Arguments& x) {
  const BlockScales& s = x.scales;
  if (!s.a.defined() && !s.b.defined()) return;
  FLASHINFER_CHECK(IsFp8(x.a.dtype()), "scales: are of fp8 matrices, a is {}", Name(x.a.dtype()));
  FLASHINFER_CHECK(s.a.defined() && s.b.defined(), "scales: {} has none, expected both or neither",
                   s.a.defined() ? "b" : "a");
  for (const auto& [name, size] :
       {std::pair{"rows_per_scale", s.rows_per_scale}, std::pair{"n_per_scale", s.n_per_scale},
        std::pair{"k_per_scale", s.k_per_scale}}) {
    FLASHINFER_CHECK(size > 0, "scales.{}: is {}, expected 1 or more", name, size);
  }
  const int last = x.a.rank() - 1;
  const int64_t k_blocks = CeilDiv(x.a.shape(last), s.k_per_scale);
  Dims a_shape = x.a.shape();
  a_shape[last - 1] = CeilDiv(x.a.shape(last - 1), s.rows_per_scale);
  a_shape[last] = k_blocks;
  CheckTensor("scales.a", s.a).On({}).Is(DType::kF32).Shape(a_shape);
  CheckTensor("scales.b", s.b).On({}).Is(DType::kF32);
  CheckTensor("scales.b", s.b)
      .Shape({x.b.shape(0), CeilDiv(x.b.shape(1), s.n_per_scale), k_blocks});
}

ScaleBlocks BlocksOf(const TensorView& scales, int64_t rows_per_scale, int64_t cols_per_scale) {
  if (!scales.defined()) return {};
  const int last = scales.rank() - 1;
  return {.data = scales.data_as<const float>(),
          .row_stride = scales.stride(last - 1),
          .col_stride = scales.stride(last),
          .group_stride = last == 2 ? scales.stride(0) : 0,
          .rows_per_scale = rows_per_scale,
          .cols_per_scale = cols_per_scale};
}

/// The matrix of a group, of those with a leading dimension.
TensorView First(const TensorView& x) { return x.rank() == 3 ? x[0] : x; }

void Multiply(const Arguments& x, std::vector<GemmSegment>& segments, Backend backend) {
  std::stable_sort(segments.begin(), segments.end(),
                   [](const GemmSegment& s, const GemmSegment& t) { return s.weight < t.weight; });
  const int last = x.a.rank() - 1;
  const auto& run = Choose<GroupedGemmOp>({.dtype_a = x.a.dtype(),
                                           .dtype_b = x.b.dtype(),
                                           .dtype_out = x.out.dtype(),
                                           .has_scales = x.scales.a.defined(),
                                           .n = x.b.shape(1),
                                           .k = x.a.shape(last)},
                                          backend);
  if (segments.empty() || x.out.num_elements() == 0) return;
  const BlockScales& s = x.scales;
  run({.segments = segments,
       .a = MatrixOf(First(x.a)),
       .a_group_stride = last == 2 ? x.a.stride(0) : 0,
       .b = MatrixOf(x.b[0]),
       .b_group_stride = x.b.stride(0),
       .out = x.out.data(),
       .out_stride = x.out.stride(last - 1),
       .out_group_stride = last == 2 ? x.out.stride(0) : 0,
       .dtype_out = x.out.dtype(),
       .a_scales = BlocksOf(s.a, s.rows_per_scale, s.k_per_scale),
       .b_scales = BlocksOf(s.b, s.n_per_scale, s.k_per_scale)});
}

void Log(std::string_view function, const Arguments& x, std::string_view rows_name,
         const TensorView& rows) {
  LogCall(function, {{"a", x.a},
                     {"b", x.b},
                     {rows_name, rows},
                     {"out", x.out},
                     {"a_scales", x.scales.a},
                     {"b_scales", x.scales.b},
                     {"rows_per_scale", ValueText(x.scales.rows_per_scale)},
                     {"n_per_scale", ValueText(x.scales.n_per_scale)},
                     {"k_per_scale", ValueText(x.scales.k_per_scale)}});
}

/// Runs of rows of one group.
std::vector<GemmSegment> RunsOf(const TensorView& row_groups, int64_t num_groups) {
  std::vector<GemmSegment> segments;
  for (int64_t row = 0; row < row_groups.shape(0); ++row) {
    const int64_t group = IntAt(row_groups, row);
    FLASHINFER_CHECK(group >= -1 && group < num_groups, "row_groups[{}]: is {}, accepted: -1 to {}",
                     row, group, num_groups - 1);
    if (group < 0) continue;
    if (segments.empty() || segments.back().weight != group || segments.back().end != row) {
      segments.push_back({group, row, row});
    }
    segments.back().end = row + 1;
  }
  return segments;
}

}  // namespace

void GroupedGemm(const TensorView& a, const TensorView& b, const TensorView& indptr,
                 const TensorView& out, const GroupedGemmOptions& options, Stream) {
  const Arguments x{a, b, out, options.scales};
  if (LogLevel() > 0) [[unlikely]]
    Log("grouped_gemm", x, "indptr", indptr);
  CheckMatrices(x, 2);
  CheckScales(x);
  std::vector<GemmSegment> segments = ReadSegments(indptr, TensorView(), {"a", a, "b", b});
  Multiply(x, segments, options.backend);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("grouped_gemm", {{"out", out}});
}

void GroupedGemmByRow(const TensorView& a, const TensorView& b, const TensorView& row_groups,
                      const TensorView& out, const GroupedGemmOptions& options, Stream) {
  const Arguments x{a, b, out, options.scales};
  if (LogLevel() > 0) [[unlikely]]
    Log("grouped_gemm_by_row", x, "row_groups", row_groups);
  CheckMatrices(x, 2);
  CheckScales(x);
  CheckTensor("row_groups", row_groups).On({}).Is(DType::kI32).Shape({a.shape(0)});
  std::vector<GemmSegment> segments = RunsOf(row_groups, b.shape(0));
  Multiply(x, segments, options.backend);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("grouped_gemm_by_row", {{"out", out}});
}

void GroupedGemmMasked(const TensorView& a, const TensorView& b, const TensorView& num_rows,
                       const TensorView& out, const GroupedGemmOptions& options, Stream) {
  const Arguments x{a, b, out, options.scales};
  if (LogLevel() > 0) [[unlikely]]
    Log("grouped_gemm_masked", x, "num_rows", num_rows);
  CheckMatrices(x, 3);
  CheckScales(x);
  CheckTensor("num_rows", num_rows).On({}).Is(DType::kI32).Shape({a.shape(0)});
  std::vector<GemmSegment> segments;
  segments.reserve(static_cast<size_t>(a.shape(0)));
  for (int64_t group = 0; group < a.shape(0); ++group) {
    const int64_t count = IntAt(num_rows, group);
    FLASHINFER_CHECK(count >= 0 && count <= a.shape(1), "num_rows[{}]: is {}, accepted: 0 to {}",
                     group, count, a.shape(1));
    if (count > 0) segments.push_back({group, 0, count});
  }
  Multiply(x, segments, options.backend);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("grouped_gemm_masked", {{"out", out}});
}

}  // namespace flashinfer
