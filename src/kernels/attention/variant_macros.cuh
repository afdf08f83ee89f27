// SPDX-License-Identifier: Apache-2.0
// Attention variants that were written for FlashInfer's macros: the names that such code uses, and
// how kernels call it. Its logits are dot products without any scale; sm_scale_log2 makes them
// base-2 logits.
#pragma once

#include "kernels/attention/variant_user.cuh"
#include "kernels/ptx/math.cuh"

// A parameter named like a placeholder is what the body calls it, so the macros must name theirs.
#define REGISTER_QUERY_TRANSFORM(params, q, ...)                           \
  template <class Params, class T>                                         \
  __device__ __forceinline__ T QueryTransform(const Params& params, T q) { \
    __VA_ARGS__                                                            \
  }
#define REGISTER_KEY_TRANSFORM(params, k, ...)                           \
  template <class Params, class T>                                       \
  __device__ __forceinline__ T KeyTransform(const Params& params, T k) { \
    __VA_ARGS__                                                          \
  }
#define REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx,          \
                                  kv_head_idx, ...)                                                \
  template <class Params, class T>                                                                 \
  __device__ __forceinline__ T LogitsTransform(const Params& params, T logits, uint32_t batch_idx, \
                                               uint32_t qo_idx, uint32_t kv_idx,                   \
                                               uint32_t qo_head_idx, uint32_t kv_head_idx) {       \
    __VA_ARGS__                                                                                    \
  }
#define REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, ...) \
  template <class Params>                                                                      \
  __device__ __forceinline__ bool LogitsMask(const Params& params, uint32_t batch_idx,         \
                                             uint32_t qo_idx, uint32_t kv_idx,                 \
                                             uint32_t qo_head_idx, uint32_t kv_head_idx) {     \
    __VA_ARGS__                                                                                \
  }
#define REGISTER_M_D_UPDATE(params, kv_tile_idx, qo_head_idx, m, d, scale, ...)          \
  template <class Params, class T_M>                                                     \
  __device__ __forceinline__ void update_m_d(const Params& params, uint32_t kv_tile_idx, \
                                             uint32_t qo_head_idx, T_M& m, float& d,     \
                                             float& scale) {                             \
    __VA_ARGS__                                                                          \
  }
#define REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale,     \
                                  ...)                                                             \
  template <class Params, class T, class T_M>                                                      \
  __device__ __forceinline__ T OutputTransform(const Params& params, T output, uint32_t batch_idx, \
                                               uint32_t qo_idx, uint32_t qo_head_idx, T_M& m,      \
                                               float& d, float scale) {                            \
    __VA_ARGS__                                                                                    \
  }

namespace flashinfer {

namespace math {
inline constexpr float log2e = kernels::tile::kLog2E;
inline constexpr float loge2 = 0.6931471805599453f;
inline constexpr float inf = -kernels::tile::kNegativeInfinity;
__device__ __forceinline__ float ptx_exp2(float x) { return kernels::ptx::ex2_approx(x); }
__device__ __forceinline__ float ptx_log2(float x) { return kernels::ptx::lg2_approx(x); }
__device__ __forceinline__ float ptx_rcp(float x) { return kernels::ptx::rcp_approx(x); }
__device__ __forceinline__ float rsqrt(float x) { return kernels::ptx::RsqrtApprox(x); }
__device__ __forceinline__ float tanh(float x) { return kernels::ptx::tanh_approx(x); }
}  // namespace math

/// What such a variant derives from: attention as it is.
struct AttentionVariantBase {
  static constexpr bool use_softmax = true;
  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                            { return logits; })
  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                       { return true; })
  REGISTER_M_D_UPDATE(params, kv_tile_idx, qo_head_idx, m, d, scale, {})
  // Scales of quantised values are the kernel's matter.
  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale,
                            { return m == -math::inf ? 0.0f : output * math::ptx_rcp(d); })
};

namespace kernels {

/// `User` without its transformation of outputs.
template <class User>
struct UntransformedOutput : User {
  using User::User;
  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale, {
    if constexpr (!User::use_softmax) return output;
    return m == -math::inf ? 0.0f : output * math::ptx_rcp(d);
  })
};

/// The call as such code asks for it; the parameters of the variant follow as members.
struct MacroCall : VariantCall {
  __device__ __host__ uint32_t get_qo_len(uint32_t batch_idx) const {
    return static_cast<uint32_t>(q_indptr[batch_idx + 1] - q_indptr[batch_idx]);
  }
  __device__ __host__ uint32_t get_kv_len(uint32_t batch_idx) const {
    return static_cast<uint32_t>(kv_lens[batch_idx]);
  }
};

/// `User` is made anew for every call of its functions, which costs nothing once it is inlined.
template <class User, class Values>
struct MacroVariant {
  static constexpr bool IsOn() { return true; }
  static constexpr bool UsesSoftmax() { return User::use_softmax; }
  static constexpr bool TransformsQuery() {
    return requires(User & user, const Values& p) { user.QueryTransform(p, 0.0f); };
  }
  static constexpr bool TransformsKey() {
    return requires(User & user, const Values& p) { user.KeyTransform(p, 0.0f); };
  }
  template <class Base>
  using Params = VariantKernelParams<Base, Values>;

  static __device__ __forceinline__ User Make(const Values& p, int32_t request) {
    return User(p, static_cast<uint32_t>(request), static_cast<uint8_t*>(nullptr));
  }

  static __device__ __forceinline__ float Query(const Values& p, float x, const QueryPosition& at) {
    if constexpr (TransformsQuery()) return Make(p, at.request).QueryTransform(p, x);
    return x;
  }
  static __device__ __forceinline__ float Key(const Values& p, float x, const KeyPosition& at) {
    if constexpr (TransformsKey()) return Make(p, at.request).KeyTransform(p, x);
    return x;
  }
  static __device__ __forceinline__ float Logit(const Values& p, float dot,
                                                const LogitPosition& at) {
    User user = Make(p, at.request);
    const float x = static_cast<float>(
        user.LogitsTransform(p, dot, static_cast<uint32_t>(at.request),
                             static_cast<uint32_t>(at.q_index), static_cast<uint32_t>(at.kv_index),
                             static_cast<uint32_t>(at.qo_head), static_cast<uint32_t>(at.kv_head)));
    if constexpr (UsesSoftmax() && requires { user.sm_scale_log2; }) return x * user.sm_scale_log2;
    return x;
  }
  static __device__ __forceinline__ bool Sees(const Values& p, const LogitPosition& at) {
    return Make(p, at.request)
        .LogitsMask(p, static_cast<uint32_t>(at.request), static_cast<uint32_t>(at.q_index),
                    static_cast<uint32_t>(at.kv_index), static_cast<uint32_t>(at.qo_head),
                    static_cast<uint32_t>(at.kv_head));
  }
  static __device__ __forceinline__ float Finish(const Values& p, const RowPosition& at, float& max,
                                                 float& sum) {
    float scale = 1;
    if constexpr (UsesSoftmax()) {
      Make(p, at.request).update_m_d(p, 0u, static_cast<uint32_t>(at.qo_head), max, sum, scale);
    }
    return scale;
  }
  static __device__ __forceinline__ float Output(const Values& p, float x, const RowPosition& at,
                                                 int32_t, float max, float sum, float scale) {
    return static_cast<float>(Make(p, at.request)
                                  .OutputTransform(p, x, static_cast<uint32_t>(at.request),
                                                   static_cast<uint32_t>(at.q_index),
                                                   static_cast<uint32_t>(at.qo_head), max, sum,
                                                   scale));
  }
};

}  // namespace kernels
}  // namespace flashinfer
