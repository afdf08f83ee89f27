// SPDX-License-Identifier: Apache-2.0
// Policies of a cache that is not there.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline uint64_t createpolicy_evict_first() { return 0; }
inline uint64_t createpolicy_evict_last() { return 0; }

inline void ld_no_allocate_v4(uint32_t (&w)[4], const void* from, uint64_t) {
  const uint4 v = *static_cast<const uint4*>(from);
  w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
}

}  // namespace flashinfer::kernels::ptx
