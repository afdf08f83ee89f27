// SPDX-License-Identifier: Apache-2.0
// What all forms of attention over a KV cache have in common: the problem, masks and extra inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/variant.h"
#include "flashinfer/export.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Which keys a query sees, apart from the window.
enum class MaskMode : uint8_t {
  kNone,       ///< all
  kCausal,     ///< query i sees key j iff j <= kv_len - q_len + i: aligned at the end
  kCustom,     ///< those of AttentionMask::custom
  kMultiItem,  ///< causal; past a shared prefix only keys of the query's own item
};

/// What is done to queries and keys, or scores, because of their positions.
enum class PositionEncoding : uint8_t {
  kNone,
  /// Rotates the halves of whole heads: query i at kv_len - q_len + i, key j at j, pair k by
  /// rope_theta^(-2k / head_dim_qk) / rope_scale radians a position. The cache holds keys that are
  /// not rotated.
  kRopeLlama,
  /// Adds slope[head] · (j - i), where i counts from the request's first query, before a soft cap.
  kAlibi,
};

/// `none`, `causal`, `custom`, `multi_item`.
FLASHINFER_API std::string_view Name(MaskMode mode);
/// `none`, `rope_llama`, `alibi`.
FLASHINFER_API std::string_view Name(PositionEncoding encoding);

/// Attention, but for its tensors and lengths. For query i and key j of a request,
///
///     score = sm_scale · q · k   (q, k rotated, or a slope added: see PositionEncoding)
///     score = logits_soft_cap · tanh(score / logits_soft_cap), with a soft cap
///     score = score + bias[head, i, j], with a bias
///     score = what a user's variant makes of it, with a variant
///
/// and out = softmax(score over the keys that i sees) · v. A query that sees no key gives 0, and
/// lse = -inf. Keys and values that a query does not see may hold anything, NaN too.
struct AttentionProblem {
  DType dtype_q = DType::kBF16;    ///< f32, f16, bf16, e4m3, e5m2
  DType dtype_kv = DType::kBF16;   ///< f32, f16, bf16, e4m3, e5m2, i8
  DType dtype_out = DType::kBF16;  ///< f32, f16, bf16, e4m3, e5m2
  int32_t num_qo_heads = 32;       ///< a multiple of num_kv_heads; query heads share in order
  int32_t num_kv_heads = 8;
  int32_t head_dim_qk = 128;  ///< a multiple of 8, up to 512
  int32_t head_dim_vo = 128;  ///< likewise
  int32_t page_size = 16;     ///< tokens a page; not read where keys are not in pages
  MaskMode mask = MaskMode::kNone;
  /// Keys left of its own position that a query sees at most, besides `mask`; -1: all.
  int32_t window_left = -1;
  float sm_scale = 0;         ///< 0: 1 / sqrt(head_dim_qk)
  float logits_soft_cap = 0;  ///< 0: none
  PositionEncoding pos_encoding = PositionEncoding::kNone;
  float rope_scale = 1;
  float rope_theta = 10000;
  bool has_bias = false;   ///< AttentionExtras::bias is given
  bool has_sinks = false;  ///< AttentionExtras::sinks is given
  /// Batch-invariant mode: keys are split every so many, a multiple of 64, whatever else is in the
  /// batch, so that a request's result does not depend on it. 0: split as balance wants.
  int32_t fixed_split_size = 0;
  /// 0: host memory; 90: a CUDA device of compute capability 9.0. Plan() takes that of its
  /// workspace's device instead.
  int32_t arch = 0;
  /// A user's code, on CUDA devices; null: none. Plan() keeps what it points to.
  const AttentionVariant* variant = nullptr;

  int32_t group_size() const { return num_qo_heads / num_kv_heads; }
};

/// What MaskMode::kCustom and kMultiItem read. Plan() reads what is in host memory and keeps where
/// the rest is; that must stay until the last Run().
struct AttentionMask {
  /// kCustom: requests one after another, each [q_len, kv_len] row-major; true: the query sees it.
  ///
  ///   custom  [sum of q_len · kv_len]            bool
  ///           [sum of ceil(q_len · kv_len / 8)]  u8: bits, lowest first, each request from a byte
  TensorView custom = {};
  /// kMultiItem: a prefix, then items that see it and themselves but not each other.
  ///
  ///   prefix_len          [num_requests]             i32, host memory
  ///   token_pos_in_items  [num_requests, num_tokens]  i32: of each token from prefix_len on, its
  ///                       place in its item, from 1; 0 for a delimiter, which sees the prefix
  TensorView prefix_len = {};
  TensorView token_pos_in_items = {};
};

/// Further inputs of a Run(). Numbers multiply tensors of the same name where both are given.
struct AttentionExtras {
  /// Quantised inputs: what a stored value is multiplied with. No tensor counts as ones.
  float q_scale = 1;
  float k_scale = 1;
  float v_scale = 1;
  TensorView q_scales = {};  ///< [num_qo_heads] f32
  TensorView k_scales = {};  ///< [num_kv_heads] f32
  TensorView v_scales = {};  ///< [num_kv_heads] f32
  /// [num_qo_heads] f32: a logit that takes part in the softmax (and in lse) without a value. It is
  /// not scaled.
  TensorView sinks = {};
  /// [num_qo_heads] f32: for kAlibi; none: the geometric ones of Press et al., 2022.
  TensorView alibi_slopes = {};
  /// [num_qo_heads or 1, num_tokens, at least the longest kv_len]  f32, f16, bf16: added to scores;
  /// rows are those of q. A key with -inf is not seen. The last dimension is dense.
  TensorView bias = {};
  /// One for each parameter of the problem's variant, in their order.
  std::span<const VariantValue> variant_values = {};
};

/// What SinglePrefill() reads and writes.
///
///   q    [q_len, num_qo_heads, head_dim_qk]
///   out  [q_len, num_qo_heads, head_dim_vo]
///   lse  [q_len, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
struct SingleAttentionTensors {
  TensorView q;
  RaggedKv kv;
  TensorView out;
  TensorView lse = {};
  AttentionMask mask = {};  ///< `custom` may also be [q_len, kv_len] bool
  AttentionExtras extras = {};
};

}  // namespace flashinfer
