// SPDX-License-Identifier: Apache-2.0
// Barriers of some of a block's threads.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

template <int kId, int kThreads>
inline void barrier_sync() {
  static_assert(kId >= 1 && kId <= 15 && kThreads % 32 == 0, "barrier 1 to 15, of whole warps");
  software_device::services->SyncThreads(kId, kThreads);
}

}  // namespace flashinfer::kernels::ptx
