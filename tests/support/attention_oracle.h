// SPDX-License-Identifier: Apache-2.0
// Attention as a naive float64 loop, and batches to try it on.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/attention/kv_cache.h"
#include "ops/attention.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

/// A batch by its lengths, and how its tensors lie.
struct AttentionCase {
  AttentionProblem problem;
  std::vector<int32_t> q_len;
  std::vector<int32_t> kv_len;
  KvLayout layout = KvLayout::kNHD;
  /// K and V are planes of one tensor; heads are padded; the rows of lse are its columns.
  bool is_strided = false;
  bool is_ragged = false;     ///< keys in a row, without pages; page_size is not read
  bool packs_mask = false;    ///< a custom mask as bits
  bool scales_heads = false;  ///< quantised inputs have a scale per head, and one besides
  bool gives_slopes = false;  ///< ALiBi with slopes of the caller's
  bool shares_bias = false;   ///< one bias for all heads
  DType dtype_bias = DType::kF32;
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
  std::vector<int32_t> kv_indptr;  ///< of ragged keys
  std::vector<int32_t> indptr;
  std::vector<int32_t> indices;
  std::vector<int32_t> last_page_len;
  HostTensor custom;         ///< [sum of q_len · kv_len] bool
  HostTensor packed_custom;  ///< the same as bits
  std::vector<int32_t> prefix_len;
  HostTensor token_pos;  ///< [num_requests, longest]
  HostTensor bias;
  HostTensor sinks;
  HostTensor slopes;
  HostTensor q_scales, k_scales, v_scales;
  float q_scale = 1, k_scale = 1, v_scale = 1;

  PagedKvCache cache() const;
  RaggedKv ragged() const;
  PageTable pages() const;
  TensorView qo_indptr_view() const;
  TensorView kv_indptr_view() const;
  AttentionMask mask() const;
  AttentionExtras extras() const;
  /// Key (or value) `token` of request b, KV head g, element d, as stored.
  double Key(int64_t b, int64_t token, int64_t g, int64_t d) const;
  double Value(int64_t b, int64_t token, int64_t g, int64_t d) const;
  /// Writes through to the pools.
  void SetKey(int64_t b, int64_t token, int64_t g, int64_t d, double value);
  void SetValue(int64_t b, int64_t token, int64_t g, int64_t d, double value);
  /// Sets the bool and the packed mask.
  void SetMask(int64_t b, int64_t i, int64_t j, bool sees);

 private:
  void FillCache(const AttentionCase& c, std::mt19937_64& rng);
  void FillMask(const AttentionCase& c, std::mt19937_64& rng);
  void FillExtras(const AttentionCase& c, std::mt19937_64& rng);
  struct Index {
    int64_t page, slot;
  };
  Index IndexOf(int64_t b, int64_t token) const;
  AttentionCase case_;
};

struct AttentionResult {
  std::vector<double> out;  // [num_tokens, num_qo_heads, head_dim_vo]
  std::vector<double> lse;  // [num_tokens, num_qo_heads], base 2
};

AttentionResult AttentionOracle(const AttentionCase& c, const AttentionInputs& in);

}  // namespace flashinfer::test
