// SPDX-License-Identifier: Apache-2.0
// A soft cap in the form of FlashInfer's macros for its kernels of SM90, with a softmax.
// struct: BlockSoftCapAttention
// param: double sm_scale
// param: double cap
struct BlockSoftCapAttention : AttentionVariantBase {
  float scale, cap;
  int kv_len;

  template <typename MainloopParams, typename BlockCoord>
  __device__ __host__ BlockSoftCapAttention(const MainloopParams& params,
                                            const BlockCoord& block_coord) {
    scale = params.additional_params.sm_scale;
    cap = params.additional_params.cap;
    auto [tile, qo_head, kv_head, qo_indptr, kv_indptr, q_len, length, request] = block_coord;
    kv_len = length;
  }

  template <int kNumRows>
  __device__ auto GetAttentionUpdater() {
    return OnlineSoftmax<kNumRows, /*WITH_SCALE=*/true>(cap * math::log2e);
  }

  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    return math::tanh(kv_idx < kv_len ? logits * scale / cap : 0.0f);
  })
};
