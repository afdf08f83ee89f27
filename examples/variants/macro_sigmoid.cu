// SPDX-License-Identifier: Apache-2.0
// Sigmoid attention in the form of FlashInfer's macros, whose logits are not scaled.
// struct: SigmoidAttention
// param: double logits_scale
// param: double sigmoid_bias
struct SigmoidAttention : AttentionVariantBase {
  static constexpr bool use_softmax = false;
  uint32_t window_left, qo_len, kv_len;
  float scale_log2, bias_log2;

  template <typename Params>
  __device__ __host__ SigmoidAttention(const Params& params, uint32_t batch_idx, uint8_t*) {
    qo_len = params.get_qo_len(batch_idx);
    kv_len = params.get_kv_len(batch_idx);
    window_left = kv_len;
    scale_log2 = params.logits_scale * math::log2e;
    bias_log2 = params.sigmoid_bias * math::log2e;
  }

  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    return math::ptx_rcp(1.f + math::ptx_exp2(-float(logits * scale_log2 + bias_log2)));
  })

  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale,
                            { return output; })
};
