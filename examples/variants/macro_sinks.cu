// SPDX-License-Identifier: Apache-2.0
// Attention sinks with a sliding window in the form of FlashInfer's macros: a logit of each head
// that takes part in the softmax without a value.
// struct: SinkAttention
// param: float[] sink  // [num_qo_heads]
// param: double sm_scale
struct SinkAttention : AttentionVariantBase {
  static constexpr bool use_softmax = true;
  uint32_t window_left, qo_len, kv_len;
  float sm_scale_log2;

  template <typename Params>
  __device__ __host__ SinkAttention(const Params& params, uint32_t batch_idx, uint8_t*) {
    qo_len = params.get_qo_len(batch_idx);
    kv_len = params.get_kv_len(batch_idx);
    window_left = params.window_left >= 0 ? params.window_left : kv_len;
    sm_scale_log2 = params.sm_scale * math::log2e;
  }

  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                       { return kv_idx + qo_len + window_left >= kv_len + qo_idx; })

  REGISTER_M_D_UPDATE(params, kv_tile_idx, qo_head_idx, m, d, scale, {
    if (kv_tile_idx != 0) return;
    const float sink = params.sink[qo_head_idx] * math::log2e;
    const float larger = max(m, sink);
    scale = m == -math::inf ? 0.f : math::ptx_exp2(m - larger);
    d = d * scale + math::ptx_exp2(sink - larger);
    m = larger;
  })

  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale,
                            { return output * scale * math::ptx_rcp(d); })
};
