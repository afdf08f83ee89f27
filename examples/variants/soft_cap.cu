// SPDX-License-Identifier: Apache-2.0
// Logits squashed to (-cap, cap) by tanh, with a cap of its own for each query head.
// param: f32[] caps  // [num_qo_heads]
struct Variant {
  static float Logit(const VariantParams& p, float logit, const LogitPosition& at) {
    const float cap = p.caps[at.qo_head];
    return cap * tanhf(logit / cap);
  }
};
