// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on CUDA devices: one launch.
#include "backends/cuda/chain_speculative.h"

#include "backends/cuda/vocabulary.h"
#include "kernels/sampling/chain_speculative_spec.h"

namespace flashinfer::cuda {
namespace {

kernels::ProbsByPositionParams ParamsOf(const ProbsByPosition& probs) {
  return {
      .data = probs.data, .row_stride = probs.row_stride, .position_stride = probs.position_stride};
}

}  // namespace

void RunChainSpeculative(const ChainSpeculativeParams& p) {
  const VocabularyRows rows{.data = p.target.data,
                            .num_rows = p.num_rows,
                            .vocab_size = p.vocab_size,
                            .stride = p.target.row_stride,
                            .dtype = DType::kF32,
                            .are_logits = false};
  kernels::ChainSpeculativeSpec spec{.dtype = DType::kF32,
                                     .vector_size = VectorSizeOf(rows)
                                                        .Count(p.target.position_stride)
                                                        .Pointer(p.draft.data, DType::kF32)
                                                        .Count(p.draft.row_stride)
                                                        .Count(p.draft.position_stride)
                                                        .value()};
  kernels::VocabularyRowsParams tiled;
  SetTile(rows, p.num_rows, p.stream.device, Passes::kOne, spec, tiled);
  const kernels::ChainSpeculativeParams params{
      .draft = ParamsOf(p.draft),
      .target = ParamsOf(p.target),
      .draft_tokens = p.draft_tokens,
      .draft_tokens_row_stride = p.draft_tokens_row_stride,
      .draft_tokens_stride = p.draft_tokens_stride,
      .tokens = p.tokens,
      .tokens_row_stride = p.tokens_row_stride,
      .tokens_stride = p.tokens_stride,
      .num_accepted = {p.num_accepted.data, p.num_accepted.stride},
      .num_emitted = {p.num_emitted.data, p.num_emitted.stride},
      .random = RandomOf(p.seed, p.offset),
      .num_drafts = static_cast<int32_t>(p.num_drafts),
      .size = tiled.size,
      .chunks_per_warp = tiled.chunks_per_warp};
  LaunchRows(spec, p.num_rows, params, p.stream);
}

}  // namespace flashinfer::cuda
