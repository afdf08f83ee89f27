// SPDX-License-Identifier: Apache-2.0
// A kernel that is loaded: CUBIN, function, and its limits set on a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda/device.h"
#include "cuda/driver.h"

namespace flashinfer::cuda {

/// The entry point that every rendered unit has.
inline constexpr const char* kEntryName = "flashinfer_kernel";

/// Ready to launch on one device: loaded, with room for its shared memory. Lives as long as the
/// process, as recorded graphs may.
struct Kernel {
  const DeviceProperties* device;
  FunctionHandle function;  ///< independent of contexts: a CUkernel as cuLaunchKernelEx takes it
  int32_t num_threads;      ///< of a block
  int32_t smem_bytes;       ///< dynamic, of a block
  int32_t num_registers;
  int32_t local_bytes;    ///< of a thread: spills and arrays
  int32_t blocks_per_sm;  ///< that fit at a time
  std::string name;       ///< text form of the spec, for messages
};

/// Loads `cubin` on `device`. Throws kDevice with the driver's text, and kUnsupported when the
/// device has less shared memory than the kernel needs.
Kernel LoadKernel(std::string_view cubin, std::string_view name, int32_t num_threads,
                  int32_t smem_bytes, const DeviceProperties& device);

}  // namespace flashinfer::cuda
