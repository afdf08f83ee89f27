// SPDX-License-Identifier: Apache-2.0
// The candidates of laying out block scales, in order.
#include "backends/cpu/isa.h"
#include "backends/cpu/swizzle_scales.h"
#include "backends/cuda/swizzle_scales.h"
#include "cuda/device.h"
#include "ops/swizzle_scales.h"

namespace flashinfer {

std::span<const Candidate<SwizzleScalesProblem, SwizzleScalesOp::Entry>>
SwizzleScalesOp::Candidates() {
  static constexpr Candidate<SwizzleScalesProblem, Entry> kCandidates[] = {
      {"cuda.simt", cuda::Available, cuda::AcceptsSwizzleScales, cuda::RunSwizzleScales},
      {"cpu.scalar", cpu::IsaAvailable<cpu::Isa::kScalar>, cpu::AcceptsSwizzleScales,
       cpu::RunSwizzleScales}};
  return kCandidates;
}

}  // namespace flashinfer
