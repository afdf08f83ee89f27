// SPDX-License-Identifier: Apache-2.0
// Packing of truth values into bits on CUDA devices: segments in host memory travel with the
// parameters of launches, so many at a time.
#include "backends/cuda/packbits.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/quantize/packbits_spec.h"

namespace flashinfer::cuda {
namespace {

kernels::PackBitsSegment SegmentOf(const PackBitsParams& p, int64_t index) {
  if (p.indptr == nullptr) return {.begin = 0, .num_elements = p.num_elements, .packed_begin = 0};
  return {.begin = p.indptr[index],
          .num_elements = p.indptr[index + 1] - p.indptr[index],
          .packed_begin = p.packed_indptr[index]};
}

}  // namespace

bool AcceptsPackBits(const PackBitsProblem& problem, std::string* why) {
  return IsOnArch(problem.arch, kernels::PackBitsSpec::kMinArch, why);
}

void RunPackBits(const PackBitsParams& p) {
  for (int64_t first = 0; first < p.num_segments; first += kernels::kPackBitsSegments) {
    const int64_t count = std::min<int64_t>(kernels::kPackBitsSegments, p.num_segments - first);
    kernels::PackBitsKernelParams params{.x = p.x, .packed = p.packed, .segments = {}};
    kernels::PackBitsSpec spec{.little = p.little};
    int64_t most = 0;
    for (int64_t i = 0; i < count; ++i) {
      const kernels::PackBitsSegment segment = SegmentOf(p, first + i);
      params.segments[i] = segment;
      most = std::max(most, segment.num_elements);
      if ((reinterpret_cast<uintptr_t>(p.x) + static_cast<uintptr_t>(segment.begin)) % 8 != 0) {
        spec.is_packed = false;
      }
    }
    const int64_t per_block = int64_t{NumThreads(spec)} * 8;
    Launch(
        jit::GetKernel(spec, p.stream.device),
        {.grid_x = (most + per_block - 1) / per_block, .grid_y = count, .overlaps_previous = true},
        params, p.stream);
  }
}

}  // namespace flashinfer::cuda
