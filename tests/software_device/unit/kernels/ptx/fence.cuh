// SPDX-License-Identifier: Apache-2.0
// Fences between accesses that are made in order anyway.
#pragma once

namespace flashinfer::kernels::ptx {

inline void fence_proxy_async_shared() {}

}  // namespace flashinfer::kernels::ptx
