// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back as the dispatcher sees it: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/quantize.h"

namespace flashinfer {

/// What decides who can run it.
struct QuantizeProblem {
  bool inverse = false;        ///< from q to floats
  DType dtype = DType::kBF16;  ///< of the floats
  DType dtype_q = DType::kE4M3;
  bool dynamic = true;       ///< scales are computed
  int64_t group_size = 128;  ///< elements that share a scale; 0: the whole tensor
  int32_t arch = 0;          ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<QuantizeProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(inverse)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dynamic)
  FLASHINFER_NAMED(group_size)
  FLASHINFER_NAMED(arch)
}

/// One call; strides count elements.
struct QuantizeParams {
  void* x;  // the floats; written when inverse
  void* q;  // read when inverse
  float* scales;
  int64_t num_rows;
  int64_t hidden_size;
  int64_t x_stride;
  int64_t q_stride;
  int64_t scales_stride_row;  // 0 and 0: one scale for the tensor
  int64_t scales_stride_group;
  int64_t group_size;  // 0: one scale for the tensor
  float min_scale;
  bool inverse;
  bool dynamic;
  bool power_of_two;
  DType dtype;
  DType dtype_q;
  Stream stream;
};

struct QuantizeOp {
  static constexpr std::string_view kName = "quantize";
  using Problem = QuantizeProblem;
  using Entry = void (*)(const QuantizeParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
