// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding.
#pragma once

#include <cstdint>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Which elements of a head make a rotated pair.
enum class RopeStyle : uint8_t {
  kNeox,         ///< element i with element i + rotary_dim / 2
  kInterleaved,  ///< element 2i with element 2i + 1
};

struct RopeOptions {
  RopeStyle style = RopeStyle::kNeox;
  int64_t rotary_dim = 0;  ///< rotated first elements of a head, even; 0: all; the rest is copied
  float rope_theta = 1e4f;
  float rope_scale = 1.0f;  ///< divides positions: linear interpolation
  /// [rotary_dim / 2] f32, divides the frequency of each pair (Llama-3.1 and other scalings); an
  /// undefined view is all ones.
  TensorView frequency_factors = TensorView();
  Backend backend = Backend();
};

/// Rotates pair i of every head by position · rope_theta^(-2i / rotary_dim) / rope_scale (Su et
/// al., RoFormer, 2021).
///
///   q        [num_tokens, num_qo_heads, head_dim]   f32, f16, bf16
///   k        [num_tokens, num_kv_heads, head_dim]   the dtype of q
///   pos_ids  [num_tokens]                           i32 or i64
///   q_out, k_out  as q and k; may be the inputs themselves
FLASHINFER_API void ApplyRope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
                              const TensorView& q_out, const TensorView& k_out,
                              const RopeOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
