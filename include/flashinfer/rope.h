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

/// Which pairs turn rope_scale times slower than their frequency says.
enum class RopeScaling : uint8_t {
  kLinear,   ///< all
  kLlama31,  ///< those that turn less than low_freq_factor times within old_context_len; from there
             ///< to high_freq_factor times, a blend (Llama Team, The Llama 3 Herd of Models, 2024)
  kYarn,     ///< those that turn less than beta_slow times; up to beta_fast times, a blend by their
             ///< number (Peng et al., YaRN, 2023, section 3.2)
};

struct RopeOptions {
  RopeStyle style = RopeStyle::kNeox;
  int64_t rotary_dim = 0;  ///< rotated first elements of a head, even; 0: all; the rest is copied
  float rope_theta = 1e4f;
  float rope_scale = 1.0f;
  RopeScaling scaling = RopeScaling::kLinear;
  int64_t old_context_len = 8192;  ///< tokens that a model was trained for, before the scaling
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  /// Multiplies what kYarn rotates; 0: 1 + 0.1 ln(rope_scale).
  float attention_factor = 0.0f;
  /// [rotary_dim / 2] f32, divides the frequency of each pair, after all scaling; an undefined view
  /// is all ones.
  TensorView frequency_factors = TensorView();
  /// [num_positions, rotary_dim] f32: the cosines of all pairs, then their sines. When defined it
  /// takes the place of everything that makes frequencies. Positions outside it throw where they
  /// are in host memory; a device reads what lies there.
  TensorView cos_sin_cache = TensorView();
  /// fp8 outputs only: multiply q and k before they are rounded to nearest even and saturated.
  float quant_scale_q = 1.0f;
  float quant_scale_kv = 1.0f;
  Backend backend = Backend();
};

/// Rotates pair i of every head by position · rope_theta^(-2i / rotary_dim), scaled (Su et al.,
/// RoFormer, 2021). Angles are right to a float at positions of many millions.
///
///   q        [num_tokens, num_qo_heads, head_dim]   f32, f16, bf16
///   k        [num_tokens, num_kv_heads, head_dim]   the dtype of q
///   pos_ids  [num_tokens]                           i32 or i64
///   q_out, k_out  as q and k: of their dtype, and then they may be the inputs themselves; or both
///                 e4m3 or e5m2
FLASHINFER_API void ApplyRope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
                              const TensorView& q_out, const TensorView& k_out,
                              const RopeOptions& options = {}, Stream stream = {});

/// Where the tokens of a batch stand: token i of request r, which is row indptr[r] + i, has
/// position offsets[r] + i.
///
///   indptr   [num_requests + 1]  i32, on the device of q, non-decreasing from 0 to num_tokens
///   offsets  [num_requests]      i32
struct RopeOffsets {
  TensorView indptr;
  TensorView offsets;
};

/// As ApplyRope() with positions from offsets.
FLASHINFER_API void ApplyRopeByOffsets(const TensorView& q, const TensorView& k,
                                       const RopeOffsets& offsets, const TensorView& q_out,
                                       const TensorView& k_out, const RopeOptions& options = {},
                                       Stream stream = {});

/// Heads of which one part is rotated and another is not, as those of latent attention. The parts
/// without rotation may be undefined, with their outputs. Heads of one are left out at will:
/// [num_tokens, 1, dim] may be [num_tokens, dim].
///
///   q_rope  [num_tokens, num_qo_heads, rope_dim]   f32, f16, bf16
///   k_rope  [num_tokens, num_kv_heads, rope_dim]   the dtype of q_rope
///   q_nope  [num_tokens, num_qo_heads, nope_dim]   likewise
///   k_nope  [num_tokens, num_kv_heads, nope_dim]   likewise; a nope_dim of its own
///   …_out   as each, all e4m3 or all e5m2
struct RopeParts {
  TensorView q_rope;
  TensorView k_rope;
  TensorView q_nope = TensorView();
  TensorView k_nope = TensorView();
  TensorView q_rope_out;
  TensorView k_rope_out;
  TensorView q_nope_out = TensorView();
  TensorView k_nope_out = TensorView();
};

/// Rotates the one part as ApplyRope() and writes all as fp8: (rotated) value · quant_scale,
/// rounded to nearest even and saturated.
FLASHINFER_API void RopeQuantize(const RopeParts& parts, const TensorView& pos_ids,
                                 const RopeOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
