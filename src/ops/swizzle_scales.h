// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales as the dispatcher sees them: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/quantize_blocks.h"

namespace flashinfer {

/// What decides who can run it.
struct SwizzleScalesProblem {
  ScaleLayout layout = ScaleLayout::k128x4;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<SwizzleScalesProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(layout)
  FLASHINFER_NAMED(arch)
}

/// One call, over bytes.
struct SwizzleScalesParams {
  const uint8_t* linear;
  uint8_t* swizzled;
  int64_t num_rows;
  int64_t num_blocks;
  int64_t linear_stride;
  ScaleLayout layout;
  Stream stream;
};

struct SwizzleScalesOp {
  static constexpr std::string_view kName = "swizzle_scales";
  using Problem = SwizzleScalesProblem;
  using Entry = void (*)(const SwizzleScalesParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
