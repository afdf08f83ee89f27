// SPDX-License-Identifier: Apache-2.0
// Gated activations on CUDA devices: picks the spec of a call and launches its kernel.
#include "backends/cuda/activation.h"

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/activation/activation_spec.h"

namespace flashinfer::cuda {
namespace {

int32_t GateOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kSilu:
      return kernels::kGateSilu;
    case ActivationKind::kGelu:
      return kernels::kGateGelu;
    case ActivationKind::kGeluTanh:
      break;
  }
  return kernels::kGateGeluTanh;
}

}  // namespace

bool AcceptsActivation(const ActivationProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, kernels::ActivationSpec::kMinArch, why)) return false;
  if (!IsFloat(problem.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (problem.dtype_out != problem.dtype && !IsFp8(problem.dtype_out)) {
    return Refuse(why, "dtype_out must be dtype, e4m3 or e5m2");
  }
  return true;
}

void RunActivation(const ActivationParams& p) {
  if (p.num_tokens == 0 || p.size == 0) return;
  const int32_t vector_size = VectorSize(p.dtype == DType::kF32 ? 4 : 8)
                                  .Pointer(p.x, p.dtype)
                                  .Pointer(p.out, p.dtype_out)
                                  .Count(p.size)
                                  .Count(p.x_stride)
                                  .Count(p.out_stride)
                                  .value();
  const kernels::ActivationSpec spec = kernels::MakeActivationSpec({.dtype = p.dtype,
                                                                    .dtype_out = p.dtype_out,
                                                                    .gate = GateOf(p.kind),
                                                                    .vector_size = vector_size},
                                                                   p.size, p.num_tokens);
  const kernels::ActivationParams params{
      .x = p.x,
      .out = p.out,
      .scale = p.out_scale_data,
      .size = p.size,
      .x_stride = p.x_stride,
      .out_stride = p.out_stride,
      .host_scale = p.out_scale_data == nullptr ? p.out_scale : 1.0f};
  const int64_t columns = kernels::ActivationBlockColumns(spec);
  Launch(jit::GetKernel(spec, p.stream.device),
         {.grid_x = p.num_tokens,
          .grid_y = (p.size + columns - 1) / columns,
          .overlaps_previous = true},
         params, p.stream);
}

}  // namespace flashinfer::cuda
