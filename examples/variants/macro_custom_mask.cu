// SPDX-License-Identifier: Apache-2.0
// A mask of bits in the form of FlashInfer's macros, for a single request.
// struct: MaskedAttention
// param: uint8_t[] custom_mask
// param: double sm_scale
struct MaskedAttention : AttentionVariantBase {
  static constexpr bool use_softmax = true;
  uint8_t* custom_mask_ptr;
  uint32_t window_left, qo_len, kv_len;
  float sm_scale_log2;

  template <typename Params>
  __device__ __host__ MaskedAttention(const Params& params, uint32_t batch_idx, uint8_t*) {
    custom_mask_ptr = params.custom_mask;
    qo_len = params.get_qo_len(batch_idx);
    kv_len = params.get_kv_len(batch_idx);
    window_left = kv_len;
    sm_scale_log2 = params.sm_scale * math::log2e;
  }

  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    const uint32_t offset = qo_idx * kv_len + kv_idx;
    return (custom_mask_ptr[offset / 8] >> (offset % 8)) & 1;
  })
};
