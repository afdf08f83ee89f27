// SPDX-License-Identifier: Apache-2.0
// Keys that were stored divided by a factor of each channel, as quantised caches like them, with an
// offset; queries grow with the logarithm of the sequence (Chiang and Cholak, 2022).
// param: f16[] factors  // [num_kv_heads, head_dim]
// param: f16[] offsets  // [num_kv_heads, head_dim]
// param: i32 head_dim
// param: f32 trained_len
struct Variant {
  static float Query(const VariantParams& p, float x, const QueryPosition& at) {
    return x * __logf(fmaxf(static_cast<float>(at.q_position() + 1), p.trained_len)) /
           __logf(p.trained_len);
  }

  static float Key(const VariantParams& p, float x, const KeyPosition& at) {
    const int32_t i = at.kv_head * p.head_dim + at.column;
    return x * p.factors[i] + p.offsets[i];
  }
};
