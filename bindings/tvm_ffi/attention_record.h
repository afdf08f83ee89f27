// SPDX-License-Identifier: Apache-2.0
// How an attention problem crosses the border: one packed record in place of a score of arguments.
#pragma once

#include <tvm/ffi/string.h>

#include <cstddef>
#include <cstdint>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/mla.h"
#include "flashinfer/attention/problem.h"
#include "flashinfer/backend.h"
#include "flashinfer/tensor.h"

namespace flashinfer::bindings {

/// The fields of `PROBLEM` in python/flashinfer/attention/record.py, in its order. The arch is that
/// of the workspace.
struct AttentionRecord {
  int32_t dtype_q;
  int32_t dtype_kv;
  int32_t dtype_out;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int32_t page_size;
  int32_t kv_layout;
  int32_t mask;
  int32_t window_left;
  int32_t pos_encoding;
  int32_t fixed_split_size;
  float sm_scale;
  float logits_soft_cap;
  float rope_scale;
  float rope_theta;
};
static_assert(sizeof(AttentionRecord) == 68);

/// The record at the start of `bytes`; behind it is the name of a backend.
AttentionRecord ReadAttentionRecord(const tvm::ffi::Bytes& bytes);

/// The name behind a record of `record_bytes`; `auto` when there is none. As long as `bytes`.
Backend BackendOf(const tvm::ffi::Bytes& bytes, size_t record_bytes);

/// Throws kInvalidArgument when an enumeration is not one of ours.
AttentionProblem ProblemOf(const AttentionRecord& record);
KvLayout LayoutOf(const AttentionRecord& record);

/// A cache given as two tensors, or as one with a K and a V plane: `v` is then undefined and
/// k [num_pages, 2, …]. Where a page is a token, the dimension of its tokens may be left out.
PagedKvCache CacheOf(const TensorView& k, const TensorView& v, KvLayout layout);

/// The fields of `MLA_PROBLEM` in the same file.
struct MlaRecord {
  int32_t dtype_q;
  int32_t dtype_kv;
  int32_t dtype_out;
  int32_t num_heads;
  int32_t head_dim_ckv;
  int32_t head_dim_kpe;
  int32_t page_size;
  int32_t causal;
  int32_t window_left;
  int32_t fixed_split_size;
  int32_t arch;
  float sm_scale;
  float logits_soft_cap;
};
static_assert(sizeof(MlaRecord) == 52);

MlaProblem ReadMlaProblem(const tvm::ffi::Bytes& bytes);

}  // namespace flashinfer::bindings
