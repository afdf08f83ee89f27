// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax on CUDA devices: a launch each.
#include "backends/cuda/sampling.h"

#include "backends/cuda/vocabulary.h"
#include "kernels/sampling/argmax_spec.h"
#include "kernels/sampling/sampling_spec.h"
#include "kernels/sampling/softmax_spec.h"

namespace flashinfer::cuda {
bool AcceptsVocabulary(const VocabularyProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, 75, why)) return false;
  return IsFloat(problem.dtype) || Refuse(why, "dtype must be f32, f16 or bf16");
}

void RunSoftmax(const SoftmaxParams& p) {
  kernels::SoftmaxSpec spec{
      .dtype = p.logits.dtype,
      .vector_size =
          VectorSizeOf(p.logits).Pointer(p.probs, DType::kF32).Count(p.probs_stride).value()};
  kernels::SoftmaxParams params{.rows = {},
                                .probs = p.probs,
                                .probs_stride = p.probs_stride,
                                .temperature = ParamsOf(p.temperature)};
  SetTile(p.logits, p.logits.num_rows, p.stream.device, Passes::kMany, spec, params.rows);
  LaunchRows(spec, p.logits.num_rows, params, p.stream);
}

void RunSampling(const SamplingParams& p) {
  kernels::SamplingSpec spec{.dtype = p.rows.dtype,
                             .from_logits = p.rows.are_logits,
                             .has_top_k = HasTopK(p.top_k, p.rows),
                             .has_top_p = HasTopP(p.top_p),
                             .vector_size = VectorSizeOf(p.rows).value()};
  kernels::SamplingParams params{.rows = {},
                                 .indices = p.indices.data,
                                 .indices_stride = p.indices.stride,
                                 .num_rows = p.rows.num_rows,
                                 .out = ParamsOf(p.out),
                                 .temperature = ParamsOf(p.temperature),
                                 .top_k = ParamsOf(p.top_k),
                                 .top_p = ParamsOf(p.top_p),
                                 .min_p = ParamsOf(p.min_p),
                                 .random = RandomOf(p.seed, p.offset),
                                 .is_joint = p.filter_order == FilterOrder::kJoint,
                                 .indices_are_64_bit = p.indices.is_64_bit};
  SetTile(p.rows, p.num_outputs, p.stream.device, PassesOf(p.top_k, p.top_p, p.rows), spec,
          params.rows);
  LaunchRows(spec, p.num_outputs, params, p.stream);
}

void RunArgMax(const ArgMaxParams& p) {
  kernels::ArgMaxSpec spec{.dtype = p.logits.dtype, .vector_size = VectorSizeOf(p.logits).value()};
  kernels::ArgMaxParams params{.rows = {}, .out = ParamsOf(p.out)};
  SetTile(p.logits, p.logits.num_rows, p.stream.device, Passes::kOne, spec, params.rows);
  LaunchRows(spec, p.logits.num_rows, params, p.stream);
}

}  // namespace flashinfer::cuda
