// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths on CUDA devices: one launch a call.
#include "backends/cuda/page_positions.h"

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/page/page_positions_spec.h"

namespace flashinfer::cuda {
namespace {

void LaunchOn(const kernels::PagePositionsSpec& spec, const kernels::PagePositionsParams& params,
              Stream stream) {
  const int64_t per_block = NumThreads(spec);
  Launch(jit::GetKernel(spec, stream.device),
         {.grid_x = (params.num_out + per_block - 1) / per_block, .overlaps_previous = true},
         params, stream);
}

}  // namespace

bool AcceptsPagePositions(const PagePositionsProblem& problem, std::string* why) {
  return IsOnArch(problem.arch, kernels::PagePositionsSpec::kMinArch, why);
}

void RunBatchIndicesPositions(const BatchIndicesPositionsParams& p) {
  LaunchOn({.of = kernels::kPagePositionsTokens},
           {.indptr = p.append_indptr,
            .lens = p.seq_lens,
            .out = p.batch_indices,
            .positions = p.positions,
            .num_out = p.num_tokens,
            .num_requests = static_cast<int32_t>(p.num_requests),
            .page_size = 0},
           p.stream);
}

void RunSeqLens(const SeqLensParams& p) {
  LaunchOn({.of = kernels::kPagePositionsLengths},
           {.indptr = p.indptr,
            .lens = p.last_page_len,
            .out = p.seq_lens,
            .positions = nullptr,
            .num_out = p.num_requests,
            .num_requests = static_cast<int32_t>(p.num_requests),
            .page_size = p.page_size},
           p.stream);
}

}  // namespace flashinfer::cuda
