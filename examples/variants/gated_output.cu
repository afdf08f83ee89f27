// SPDX-License-Identifier: Apache-2.0
// Outputs times the sigmoid of a gate of each query token and head (Qiu et al., 2025).
// param: bf16[] gates  // [num_tokens, num_qo_heads]
struct Variant {
  static float Output(const VariantParams& p, float x, const OutputPosition& at) {
    const int64_t token = p.q_indptr[at.request] + at.q_index;
    return __fdividef(x, 1.0f + __expf(-p.gates[token * p.num_qo_heads + at.qo_head]));
  }
};
