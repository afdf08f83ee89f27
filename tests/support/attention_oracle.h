// SPDX-License-Identifier: Apache-2.0
// Attention over a paged cache as a naive float64 loop, and batches to try it on.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/attention/kv_cache.h"
#include "ops/attention.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

/// A batch by its lengths; head counts and dims are those of the problem.
struct AttentionCase {
  AttentionProblem problem;
  std::vector<int32_t> q_len;
  std::vector<int32_t> kv_len;
  KvLayout layout = KvLayout::kNHD;
  bool is_interleaved = false;  ///< K and V are planes of one tensor, heads padded
};

/// Tensors of a case: pages shuffled over a larger pool, everything not a valid token is NaN.
struct AttentionInputs {
  AttentionInputs(const AttentionCase& c, uint64_t seed);

  HostTensor q;
  HostTensor out;
  HostTensor lse;
  HostTensor k_pool;
  HostTensor v_pool;
  std::vector<int32_t> qo_indptr;
  std::vector<int32_t> indptr;
  std::vector<int32_t> indices;
  std::vector<int32_t> last_page_len;

  PagedKvCache cache() const;
  PageTable pages() const;
  TensorView qo_indptr_view() const;
  /// Key (or value) `token` of request b, KV head g, element d.
  double Key(int64_t b, int64_t token, int64_t g, int64_t d) const;
  double Value(int64_t b, int64_t token, int64_t g, int64_t d) const;
  /// Writes through to the pools.
  void SetKey(int64_t b, int64_t token, int64_t g, int64_t d, double value);
  void SetValue(int64_t b, int64_t token, int64_t g, int64_t d, double value);

 private:
  std::vector<int64_t> IndexOf(int64_t b, int64_t token, int64_t g, int64_t d) const;
  KvLayout layout_;
  int32_t page_size_;
};

struct AttentionResult {
  std::vector<double> out;  // [num_tokens, num_qo_heads, head_dim_vo]
  std::vector<double> lse;  // [num_tokens, num_qo_heads], base 2
};

AttentionResult AttentionOracle(const AttentionCase& c, const AttentionInputs& in);

}  // namespace flashinfer::test
