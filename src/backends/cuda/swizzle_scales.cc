// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on CUDA devices: picks the spec of a call and launches its kernel.
#include "backends/cuda/swizzle_scales.h"

#include "backends/cuda/problem.h"
#include "backends/cuda/scale_layout.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/quantize/swizzle_scales_spec.h"

namespace flashinfer::cuda {
namespace {

kernels::SwizzleScalesSpec SpecOf(const SwizzleScalesParams& p) {
  kernels::SwizzleScalesSpec spec{.tile_rows = TileRowsOf(p.layout)};
  spec.load_bytes = VectorSize(16)
                        .Pointer(p.linear, DType::kU8)
                        .Count(p.linear_stride)
                        .Count(p.num_blocks)
                        .value();
  VectorSize store(SwizzleRunBytes(spec));
  store.Pointer(p.swizzled, DType::kU8);
  if (p.layout == ScaleLayout::kLinear) store.Count(p.num_blocks);
  spec.store_bytes = store.value();
  return spec;
}

}  // namespace

bool AcceptsSwizzleScales(const SwizzleScalesProblem& p, std::string* why) {
  return IsOnArch(p.arch, kernels::SwizzleScalesSpec::kMinArch, why);
}

void RunSwizzleScales(const SwizzleScalesParams& p) {
  const kernels::SwizzleScalesSpec spec = SpecOf(p);
  const int64_t padded_rows = PaddedScaleRows(p.layout, p.num_rows);
  const int64_t padded_blocks = PaddedScaleBlocks(p.layout, p.num_blocks);
  const int64_t pieces = (padded_blocks + SwizzlePiece(spec) - 1) / SwizzlePiece(spec);
  const int64_t row_groups = (padded_rows + SwizzleBlockRows(spec) - 1) / SwizzleBlockRows(spec);
  if (pieces == 0 || row_groups == 0) return;
  Launch(jit::GetKernel(spec, p.stream.device),
         {.grid_x = row_groups * pieces, .overlaps_previous = true},
         kernels::SwizzleScalesKernelParams{
             .linear = p.linear,
             .swizzled = p.swizzled,
             .num_rows = p.num_rows,
             .padded_rows = padded_rows,
             .num_blocks = p.num_blocks,
             .padded_blocks = padded_blocks,
             .linear_stride = p.linear_stride,
             .pieces = kernels::MakeDivisor(static_cast<uint32_t>(pieces))},
         p.stream);
}

}  // namespace flashinfer::cuda
