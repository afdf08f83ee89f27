// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache and gathering from it: every slot right, nothing else touched.
#pragma once

#include <cstdint>
#include <vector>

#include "support/attention_oracle.h"
#include "support/case_run.h"
#include "support/cases/page_copy.h"

namespace flashinfer::test {

/// The last q_len tokens of each request are new; a token in the middle belongs to no request.
struct PageCopyTokens {
  PageCopyTokens(const AttentionCase& c, bool strided)
      : k(Rows(c, c.problem.head_dim_qk, strided)), v(Rows(c, c.problem.head_dim_vo, strided)) {
    for (size_t b = 0; b < c.q_len.size(); ++b) {
      for (int32_t i = 0; i < c.q_len[b]; ++i) {
        requests.push_back(static_cast<int32_t>(b));
        positions.push_back(c.kv_len[b] - c.q_len[b] + i);
      }
      if (b + 1 == c.q_len.size() / 2) {
        requests.push_back(-1);
        positions.push_back(-1);
      }
    }
  }
  static HostTensor Rows(const AttentionCase& c, int64_t dim, bool strided) {
    int64_t count = 1;
    for (int32_t n : c.q_len) count += n;
    const int64_t heads = c.problem.num_kv_heads;
    if (!strided) return {c.problem.dtype_q, {count, heads, dim}};
    return {c.problem.dtype_q, {count, heads, dim}, {dim, (dim + 3) * count, 1}, 5};
  }
  int64_t size() const { return static_cast<int64_t>(requests.size()); }
  TensorView batch_indices() const { return {requests.data(), DType::kI32, {size()}}; }
  TensorView position_view() const { return {positions.data(), DType::kI32, {size()}}; }
  HostTensor k;
  HostTensor v;
  std::vector<int32_t> requests;
  std::vector<int32_t> positions;
};

void CheckPageAppend(const PageCopyCase& c, CaseRun& run);
void CheckPageGather(const PageCopyCase& c, CaseRun& run);

}  // namespace flashinfer::test
