// SPDX-License-Identifier: Apache-2.0
// Products of row segments on the CPU: a weight is prepared once for all its segments.
#include "backends/cpu/segment_gemm.h"

#include <optional>

namespace flashinfer::cpu {
namespace {

const void* At(const void* data, DType dtype, int64_t elements) {
  return static_cast<const char*>(data) + elements * SizeBytes(dtype);
}

}  // namespace

bool AcceptsSegmentGemm(const SegmentGemmProblem& problem, std::string* why) {
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF16 &&
      problem.dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  return problem.dtype_out == problem.dtype || problem.dtype_out == DType::kF32 ||
         Refuse(why, "dtype_out must be dtype or f32");
}

void SegmentGemm(const GemmKernels& kernels, const SegmentGemmParams& params) {
  std::optional<GemmWeight> weight;
  int64_t packed = -1;
  for (const GemmSegment& segment : params.segments) {
    if (segment.weight != packed) {
      MatrixRows b = params.weights;
      b.data = At(b.data, b.dtype, segment.weight * params.weight_stride);
      weight.emplace(kernels, b);
      packed = segment.weight;
    }
    MatrixRows rows = params.x;
    rows.data = At(rows.data, rows.dtype, segment.begin * rows.row_stride);
    rows.rows = segment.end - segment.begin;
    char* out = static_cast<char*>(params.out) +
                segment.begin * params.out_stride * SizeBytes(params.dtype_out);
    weight->Multiply(rows, {.a = rows,
                            .b = params.weights,
                            .out = out,
                            .out_stride = params.out_stride,
                            .dtype_out = params.dtype_out,
                            .scale = 1.0f});
  }
}

}  // namespace flashinfer::cpu
