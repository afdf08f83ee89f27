// SPDX-License-Identifier: Apache-2.0
// Addresses as instructions on shared memory take them.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace flashinfer::kernels::ptx
