// SPDX-License-Identifier: Apache-2.0
// Sigmoid attention in the form of FlashInfer's macros for its kernels of SM90 ("fa3").
// struct: BlockSigmoidAttention
// param: double logits_scale
// param: double sigmoid_bias
struct BlockSigmoidAttention : AttentionVariantBase {
  float scale_log2, bias_log2;

  template <typename MainloopParams, typename BlockCoord>
  __device__ __host__ BlockSigmoidAttention(const MainloopParams& params, const BlockCoord&) {
    scale_log2 = params.additional_params.logits_scale * math::log2e;
    bias_log2 = params.additional_params.sigmoid_bias * math::log2e;
  }

  template <int kNumRows>
  __device__ auto GetAttentionUpdater() {
    return DefaultUpdater<kNumRows>();
  }

  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    return math::ptx_rcp(1.f + math::ptx_exp2(-float(logits * scale_log2 + bias_log2)));
  })
};
