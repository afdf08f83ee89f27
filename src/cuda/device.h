// SPDX-License-Identifier: Apache-2.0
// What is known of each CUDA device, read once, and making one current.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/driver.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer::cuda {

struct DeviceProperties {
  DeviceHandle handle;
  Context context;  ///< the primary one
  std::string name;
  int32_t arch;       ///< compute capability 9.0 is 90; at most FLASHINFER_CUDA_ARCH
  int32_t code_arch;  ///< what its code is compiled for: its own
  int32_t num_sms;
  int32_t smem_per_block_bytes;  ///< at most, with opt-in
  int32_t smem_per_sm_bytes;
  int32_t max_threads_per_sm;
  int32_t max_blocks_per_sm;
  int64_t l2_bytes;
  size_t memory_bytes;
};

/// 0 without a driver.
int32_t NumDevices();

/// Throws kDevice when there is no driver, kInvalidArgument when there is no such device.
const DeviceProperties& Properties(Device device);

/// The field `arch` of a problem: 0 in host memory, 90 on a device of compute capability 9.0.
inline int32_t ArchOf(Device device) {
  return device.type == DeviceType::kCpu ? 0 : Properties(device).arch;
}

/// The stream that work on tensors of `device` goes to: its default stream when the caller gave
/// none. Throws kInvalidArgument when the stream is another device's.
Stream StreamOn(Device device, Stream stream);

/// For Candidate::available of what runs on CUDA devices.
bool Available(std::string* why);

/// Makes a device current for a scope. A context of that device which is current already stays: it
/// is the one that the caller's memory and streams belong to.
class CurrentDevice {
 public:
  explicit CurrentDevice(const DeviceProperties& device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  bool is_pushed_ = false;
};

}  // namespace flashinfer::cuda
