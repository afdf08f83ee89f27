// SPDX-License-Identifier: Apache-2.0
// The allocator that workspaces of a device type take memory from now.
#pragma once

#include "flashinfer/stream.h"

namespace flashinfer {

Allocator GetAllocator(DeviceType type);

}  // namespace flashinfer
