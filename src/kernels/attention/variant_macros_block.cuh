// SPDX-License-Identifier: Apache-2.0
// Attention variants that were written for FlashInfer's macros and its kernels of SM90: such code
// is made of a block's place, and says by the updater that it returns how weights come of logits.
#pragma once

#include "kernels/attention/variant_macros.cuh"

namespace flashinfer {

/// Softmax of logits, which it makes base-2 ones when `kWithScale`; else they are that already.
template <int kNumRows, bool kWithScale = true>
struct OnlineSoftmax {
  static constexpr bool kUsesSoftmax = true;
  float scale_log2 = 1;

  __device__ explicit OnlineSoftmax(float scale = 1) : scale_log2(kWithScale ? scale : 1.0f) {}
};
template <int kNumRows>
struct OnlineSoftmaxWithoutScale : OnlineSoftmax<kNumRows, false> {
  __device__ explicit OnlineSoftmaxWithoutScale(float = 1) {}
};

/// Weights are the transformed logits themselves.
template <int kNumRows>
struct DefaultUpdater {
  static constexpr bool kUsesSoftmax = false;
  float scale_log2 = 1;
};

namespace kernels {

/// In the order in which such code takes it apart. What a block has and a row has not is -1.
struct BlockCoord {
  int32_t q_tile = -1;
  int32_t qo_head;
  int32_t kv_head;
  int32_t qo_indptr;
  int32_t kv_indptr = -1;
  int32_t qo_len;
  int32_t kv_len;
  int32_t request;
};

template <class Values>
struct BlockParams {
  const Values& additional_params;
};

template <class User, class Values>
inline constexpr bool kIsMadeOfBlock = __is_constructible(User, const BlockParams<Values>&,
                                                          const BlockCoord&);

template <class User, class Values>
requires(kIsMadeOfBlock<User, Values>) struct MacroVariant<User, Values> {
  using Updater = decltype(static_cast<User*>(nullptr)->template GetAttentionUpdater<1>());

  static constexpr bool IsOn() { return true; }
  static constexpr bool UsesSoftmax() { return Updater::kUsesSoftmax; }
  static constexpr bool TransformsQuery() { return false; }
  static constexpr bool TransformsKey() { return false; }
  template <class Base>
  using Params = VariantKernelParams<Base, Values>;

  static __device__ __forceinline__ User Make(const Values& p, const RowPosition& at) {
    return User(BlockParams<Values>{p}, BlockCoord{.qo_head = at.qo_head,
                                                   .kv_head = at.kv_head,
                                                   .qo_indptr = p.q_indptr[at.request],
                                                   .qo_len = at.q_len,
                                                   .kv_len = at.kv_len,
                                                   .request = at.request});
  }

  static __device__ __forceinline__ float Query(const Values&, float x, const QueryPosition&) {
    return x;
  }
  static __device__ __forceinline__ float Key(const Values&, float x, const KeyPosition&) {
    return x;
  }
  static __device__ __forceinline__ float Logit(const Values& p, float dot,
                                                const LogitPosition& at) {
    User user = Make(p, at);
    const float x = static_cast<float>(user.LogitsTransform(
        BlockParams<Values>{p}, dot, at.request, at.q_index, at.kv_index, at.qo_head, at.kv_head));
    return x * user.template GetAttentionUpdater<1>().scale_log2;
  }
  static __device__ __forceinline__ bool Sees(const Values& p, const LogitPosition& at) {
    return Make(p, at).LogitsMask(BlockParams<Values>{p}, at.request, at.q_index, at.kv_index,
                                  at.qo_head, at.kv_head);
  }
  static __device__ __forceinline__ float Finish(const Values&, const RowPosition&, float&,
                                                 float&) {
    return 1;
  }
  static __device__ __forceinline__ float Output(const Values&, float x, const RowPosition&,
                                                 int32_t, float max, float sum, float) {
    if constexpr (!UsesSoftmax()) return x;
    return max == -math::inf ? 0.0f : x * math::ptx_rcp(sum);
  }
};

}  // namespace kernels
}  // namespace flashinfer
