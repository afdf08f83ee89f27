// SPDX-License-Identifier: Apache-2.0
// Attention with linear biases (Press et al., 2022): the further a key, the smaller its score.
// param: f32[] slopes  // [num_qo_heads]
struct Variant {
  static float Logit(const VariantParams& p, float logit, const LogitPosition& at) {
    return logit + p.slopes[at.qo_head] * static_cast<float>(at.kv_index - at.q_position());
  }
};
