// SPDX-License-Identifier: Apache-2.0
// Runs the threads of a launch, one at a time, each until it waits for others.
#pragma once

#include <string>

#include "software_device/interface.h"

namespace flashinfer::software_device {

struct Launch {
  Index3 grid_dim;
  Index3 block_dim;
  uint32_t cluster_size;
  size_t smem_bytes;
};

const Services& DeviceServices();

/// Runs a kernel to its end. False, with the reason, when threads wait for ever or meet at
/// different operations.
bool Run(const Launch& launch, void (*run_thread)(void**), void** params, std::string& why);

}  // namespace flashinfer::software_device
