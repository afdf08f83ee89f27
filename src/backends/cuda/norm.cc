// SPDX-License-Identifier: Apache-2.0
// The norms on CUDA devices: picks the spec of a call and launches its kernel.
#include "backends/cuda/norm.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/norm/norm_spec.h"

namespace flashinfer::cuda {
namespace {

int32_t VectorSizeOf(const NormParams& p) {
  VectorSize size(p.dtype == DType::kF32 ? 4 : 8);
  for (const auto& [rows, dtype] :
       {std::pair{p.x, p.dtype}, {p.residual, p.dtype}, {p.out, p.dtype_out}}) {
    size.Pointer(rows.data, dtype).Count(rows.stride_outer).Count(rows.stride_inner);
  }
  return size.Pointer(p.weight, p.dtype_weight)
      .Pointer(p.bias, p.dtype_weight)
      .Count(p.hidden_size)
      .value();
}

}  // namespace

bool AcceptsNorm(const NormProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, kernels::NormSpec::kMinArch, why)) return false;
  if (!IsFloat(problem.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (problem.dtype_weight != problem.dtype && problem.dtype_weight != DType::kF32) {
    return Refuse(why, "dtype_weight must be dtype or f32");
  }
  if (problem.dtype_out != problem.dtype && !IsFp8(problem.dtype_out)) {
    return Refuse(why, "dtype_out must be dtype, e4m3 or e5m2");
  }
  if (problem.hidden_size > std::numeric_limits<int32_t>::max() / 2) {
    return Refuse(why, "hidden_size must be below 2^30");
  }
  return true;
}

void RunNorm(const NormParams& p) {
  const int64_t num_rows = p.num_outer * p.num_inner;
  if (num_rows == 0) return;
  const kernels::NormSpec spec = kernels::MakeNormSpec({.dtype = p.dtype,
                                                        .dtype_weight = p.dtype_weight,
                                                        .dtype_out = p.dtype_out,
                                                        .vector_size = VectorSizeOf(p),
                                                        .centered = p.kind == NormKind::kLayer,
                                                        .has_residual = p.residual.data != nullptr},
                                                       p.hidden_size, num_rows);
  const kernels::NormParams params{.x = p.x.data,
                                   .weight = p.weight,
                                   .bias = p.bias,
                                   .residual = p.residual.data,
                                   .out = p.out.data,
                                   .scale = p.out_scale_data,
                                   .num_rows = num_rows,
                                   .num_inner = p.num_inner,
                                   .x_stride_outer = p.x.stride_outer,
                                   .x_stride_inner = p.x.stride_inner,
                                   .residual_stride_outer = p.residual.stride_outer,
                                   .residual_stride_inner = p.residual.stride_inner,
                                   .out_stride_outer = p.out.stride_outer,
                                   .out_stride_inner = p.out.stride_inner,
                                   .hidden_size = static_cast<int32_t>(p.hidden_size),
                                   .eps = p.eps,
                                   .weight_offset = p.kind == NormKind::kGemma ? 1.0f : 0.0f,
                                   .host_scale = p.out_scale_data == nullptr ? p.out_scale : 1.0f};
  const Kernel& kernel = jit::GetKernel(spec, p.stream.device);
  const int64_t rows_per_block = kernels::NormRowsPerBlock(spec);
  int64_t num_blocks = (num_rows + rows_per_block - 1) / rows_per_block;
  if (kernels::NormWalksOn(spec)) {
    num_blocks =
        std::min(num_blocks, int64_t{kernel.device->num_sms} * std::max(1, kernel.blocks_per_sm));
  }
  Launch(kernel, {.grid_x = num_blocks, .overlaps_previous = true}, params, p.stream);
}

}  // namespace flashinfer::cuda
