// SPDX-License-Identifier: Apache-2.0
// Sigmoid attention (Ramapuram et al., 2024): weights are sigmoid(score + bias), not a softmax.
// param: f32 bias
struct Variant {
  static constexpr bool kUsesSoftmax = false;

  static float Logit(const VariantParams& p, float logit, const LogitPosition&) {
    return __fdividef(1.0f, 1.0f + __expf(-logit - p.bias));
  }
};
