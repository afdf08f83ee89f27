// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on CUDA devices: picks the spec of a call and launches its
// kernels.
#include "backends/cuda/quantize.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/quantize/quantize_spec.h"

namespace flashinfer::cuda {
namespace {

/// Columns of a row that go together where the whole tensor has one scale: two accesses of a
/// thread.
constexpr int64_t kTensorSpan = 4096;

kernels::QuantizeKernelParams ParamsOf(const QuantizeParams& p) {
  const bool per_tensor = p.group_size == 0;
  const int64_t span_size =
      per_tensor ? std::clamp<int64_t>(p.hidden_size, 1, kTensorSpan) : p.group_size;
  const int64_t spans_per_row = (p.hidden_size + span_size - 1) / span_size;
  return {.from = p.inverse ? p.q : p.x,
          .to = p.inverse ? p.x : p.q,
          .scales = p.scales,
          .num_spans = p.num_rows * spans_per_row,
          .spans_per_row = spans_per_row,
          .span_size = span_size,
          .hidden_size = p.hidden_size,
          .from_stride = p.inverse ? p.q_stride : p.x_stride,
          .to_stride = p.inverse ? p.x_stride : p.q_stride,
          .scales_stride_row = p.scales_stride_row,
          .scales_stride_span = p.scales_stride_group,
          .min_scale = p.min_scale,
          .power_of_two = p.power_of_two ? 1 : 0};
}

/// Blocks of one step: of the steps that look at one number, one.
void LaunchStep(kernels::QuantizeSpec spec, int32_t step,
                const kernels::QuantizeKernelParams& params, Stream stream) {
  spec.step = step;
  const int64_t per_block = QuantizeBlockSpans(spec);
  const bool is_single = step == kernels::kQuantizeClear || step == kernels::kQuantizeScale;
  const int64_t num_blocks = is_single ? 1 : (params.num_spans + per_block - 1) / per_block;
  if (is_single) spec.vector_size = spec.span_threads = 1;  // one kernel for all
  Launch(jit::GetKernel(spec, stream.device), {.grid_x = num_blocks, .overlaps_previous = true},
         params, stream);
}

}  // namespace

bool AcceptsQuantize(const QuantizeProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, kernels::QuantizeSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (!IsFp8(p.dtype_q) && p.dtype_q != DType::kI8) {
    return Refuse(why, "dtype_q must be e4m3, e5m2 or i8");
  }
  return true;
}

void RunQuantize(const QuantizeParams& p) {
  const bool has_shared_scale = p.dynamic && p.group_size == 0;
  const kernels::QuantizeKernelParams params = ParamsOf(p);
  if (params.num_spans == 0 && !has_shared_scale) return;
  kernels::QuantizeSpec spec{.dtype = p.dtype, .dtype_q = p.dtype_q};
  spec.vector_size = VectorSize(p.dtype == DType::kF32 ? 4 : 8)
                         .Pointer(p.x, p.dtype)
                         .Pointer(p.q, p.dtype_q)
                         .Count(p.x_stride)
                         .Count(p.q_stride)
                         .Count(p.hidden_size)
                         .Count(params.span_size)
                         .value();
  spec.span_threads = kernels::QuantizeSpanThreads(params.span_size, spec.vector_size);
  if (has_shared_scale) {
    LaunchStep(spec, kernels::kQuantizeClear, params, p.stream);
    LaunchStep(spec, kernels::kQuantizeAmax, params, p.stream);
    LaunchStep(spec, kernels::kQuantizeScale, params, p.stream);
  }
  LaunchStep(spec,
             p.inverse                        ? kernels::kQuantizeWiden
             : p.dynamic && !has_shared_scale ? kernels::kQuantizeDynamic
                                              : kernels::kQuantizeNarrow,
             params, p.stream);
}

}  // namespace flashinfer::cuda
