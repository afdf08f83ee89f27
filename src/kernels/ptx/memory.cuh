// SPDX-License-Identifier: Apache-2.0
// Moves of 1 to 16 bytes.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/createpolicy.cuh"

namespace flashinfer::kernels::ptx {

/// `kBytes` bytes in 32-bit words; narrower values are in the low bits of the first.
template <int kBytes>
struct Words {
  static_assert(kBytes == 1 || kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16,
                "an access is 1, 2, 4, 8 or 16 bytes");
  static constexpr int kCount = kBytes < 4 ? 1 : kBytes / 4;
  uint32_t w[kCount];
};

/// One load; `from` is aligned to kBytes.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> ld(const void* from) {
  Words<kBytes> v;
  if constexpr (kBytes == 16) {
    const uint4 x = *static_cast<const uint4*>(from);
    v.w[0] = x.x, v.w[1] = x.y, v.w[2] = x.z, v.w[3] = x.w;
  } else if constexpr (kBytes == 8) {
    const uint2 x = *static_cast<const uint2*>(from);
    v.w[0] = x.x, v.w[1] = x.y;
  } else if constexpr (kBytes == 4) {
    v.w[0] = *static_cast<const uint32_t*>(from);
  } else if constexpr (kBytes == 2) {
    v.w[0] = *static_cast<const uint16_t*>(from);
  } else {
    v.w[0] = *static_cast<const uint8_t*>(from);
  }
  return v;
}

/// ld() of what nobody reads again soon: it leaves the L2 cache first (SM80).
template <int kBytes>
__device__ __forceinline__ Words<kBytes> ld_evict_first(const void* from) {
#if FLASHINFER_ARCH >= 800
  if constexpr (kBytes == 16) {
    Words<kBytes> v;
    ld_no_allocate_v4(v.w, from, createpolicy_evict_first());
    return v;
  }
#endif
  return ld<kBytes>(from);
}

/// ld() past the L1 cache, of what other blocks wrote; 4, 8 or 16 bytes.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> ld_l2(const void* from) {
  Words<kBytes> v;
  if constexpr (kBytes == 16) {
    const uint4 x = __ldcg(static_cast<const uint4*>(from));
    v.w[0] = x.x, v.w[1] = x.y, v.w[2] = x.z, v.w[3] = x.w;
  } else if constexpr (kBytes == 8) {
    const uint2 x = __ldcg(static_cast<const uint2*>(from));
    v.w[0] = x.x, v.w[1] = x.y;
  } else {
    static_assert(kBytes == 4, "4, 8 or 16 bytes");
    v.w[0] = __ldcg(static_cast<const uint32_t*>(from));
  }
  return v;
}

/// One store; `to` is aligned to kBytes.
template <int kBytes>
__device__ __forceinline__ void st(void* to, const Words<kBytes>& v) {
  if constexpr (kBytes == 16) {
    *static_cast<uint4*>(to) = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
  } else if constexpr (kBytes == 8) {
    *static_cast<uint2*>(to) = make_uint2(v.w[0], v.w[1]);
  } else if constexpr (kBytes == 4) {
    *static_cast<uint32_t*>(to) = v.w[0];
  } else if constexpr (kBytes == 2) {
    *static_cast<uint16_t*>(to) = static_cast<uint16_t>(v.w[0]);
  } else {
    *static_cast<uint8_t*>(to) = static_cast<uint8_t>(v.w[0]);
  }
}

}  // namespace flashinfer::kernels::ptx
