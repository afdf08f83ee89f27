// SPDX-License-Identifier: Apache-2.0
// Attention batches: shapes and dtypes of decode and prefill, and the features that both have.
#pragma once

#include <utility>
#include <vector>

#include "support/attention_oracle.h"

namespace flashinfer::test {

inline AttentionProblem AttentionOf(DType q, DType kv, DType out, int32_t num_qo_heads,
                                    int32_t num_kv_heads, int32_t dim_qk, int32_t dim_vo,
                                    int32_t page_size) {
  AttentionProblem p;
  p.dtype_q = q;
  p.dtype_kv = kv;
  p.dtype_out = out;
  p.num_qo_heads = num_qo_heads;
  p.num_kv_heads = num_kv_heads;
  p.head_dim_qk = dim_qk;
  p.head_dim_vo = dim_vo;
  p.page_size = page_size;
  return p;
}

/// One query token per request.
std::vector<AttentionCase> DecodeCases();

/// Any number of query tokens per request, paged and ragged.
std::vector<AttentionCase> PrefillCases();

/// Masks, position encodings, biases, sinks and narrow dtypes, over batches with empty requests,
/// q_len above kv_len, and lengths around the tile sizes. For decode, of one token a request and
/// without the masks that prefill alone has.
std::vector<AttentionCase> DecodeFeatureCases();
std::vector<AttentionCase> PrefillFeatureCases();

}  // namespace flashinfer::test
