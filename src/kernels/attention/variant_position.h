// SPDX-License-Identifier: Apache-2.0
// What a user's attention variant may know beside its own parameters: of a call, and of the element
// that it is asked about.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels {

/// The values of a variant's own parameters follow, 8 bytes each.
struct VariantCall {
  const int32_t* q_indptr;  ///< [num_requests + 1]: rows of q where requests begin
  const int32_t* kv_lens;   ///< [num_requests]
  float sm_scale;           ///< without scales of quantised inputs
  float logits_soft_cap;
  int32_t window_left;  ///< -1: all
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t num_requests;
};

/// A row of scores: a query token of a request, and a head.
struct RowPosition {
  int32_t request;
  int32_t q_index;  ///< within the request
  int32_t q_len;
  int32_t kv_len;
  int32_t qo_head;
  int32_t kv_head;

  /// The query's position among the keys: causal attention sees keys up to it.
  int32_t q_position() const { return kv_len - q_len + q_index; }
};

struct LogitPosition : RowPosition {
  int32_t kv_index;  ///< within the request
};

struct QueryPosition : RowPosition {
  int32_t column;
};

struct KeyPosition {
  int32_t request;
  int32_t kv_index;  ///< within the request
  int32_t kv_len;
  int32_t kv_head;
  int32_t column;
};

struct OutputPosition : RowPosition {
  int32_t column;
  float lse;  ///< of base 2; without softmax 0
};

}  // namespace flashinfer::kernels
