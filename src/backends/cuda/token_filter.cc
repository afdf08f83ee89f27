// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking rows of a vocabulary on CUDA devices: one launch.
#include "backends/cuda/token_filter.h"

#include "backends/cuda/vocabulary.h"
#include "kernels/sampling/token_filter_spec.h"

namespace flashinfer::cuda {

void RunTokenFilter(const TokenFilterParams& p) {
  kernels::TokenFilterSpec spec{
      .dtype = p.rows.dtype,
      .from_logits = p.rows.are_logits,
      .has_top_k = HasTopK(p.top_k, p.rows),
      .has_top_p = HasTopP(p.top_p),
      .vector_size = VectorSizeOf(p.rows).Pointer(p.out, p.rows.dtype).Count(p.out_stride).value()};
  kernels::TokenFilterParams params{.rows = {},
                                    .out = p.out,
                                    .out_stride = p.out_stride,
                                    .top_k = ParamsOf(p.top_k),
                                    .top_p = ParamsOf(p.top_p)};
  SetTile(p.rows, p.rows.num_rows, p.stream.device, PassesOf(p.top_k, p.top_p, p.rows), spec,
          params.rows);
  LaunchRows(spec, p.rows.num_rows, params, p.stream);
}

}  // namespace flashinfer::cuda
