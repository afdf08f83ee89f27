// SPDX-License-Identifier: Apache-2.0
// prefetch: nothing is far.
#pragma once

namespace flashinfer::kernels::ptx {

inline void prefetch_L2(const void*) {}

}  // namespace flashinfer::kernels::ptx
