// SPDX-License-Identifier: Apache-2.0
// Addresses of shared memory: bytes from that of the cluster's first block.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) -
                               software_device::Self().cluster_shared);
}

/// The other way round.
inline char* SharedPointer(uint32_t address) {
  return software_device::Self().cluster_shared + address;
}

}  // namespace flashinfer::kernels::ptx
