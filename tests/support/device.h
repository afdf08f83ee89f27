// SPDX-License-Identifier: Apache-2.0
// Running a test of host tensors on every device that this machine has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "support/candidates.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

/// The CPU, and the first CUDA device where there is one. FLASHINFER_TEST_DEVICE, `cpu` or `cuda`,
/// leaves one of them.
const std::vector<Device>& TestDevices();

/// One way to run a case.
struct DeviceCandidate {
  std::string name;
  Device device;
};

/// Candidates of `Op` that run `problem` on any device; the problem's `arch` is set to each.
template <class Op>
std::vector<DeviceCandidate> CandidatesOnDevices(typename Op::Problem problem) {
  std::vector<DeviceCandidate> candidates;
  for (Device device : TestDevices()) {
    problem.arch = cuda::ArchOf(device);
    for (std::string& name : AcceptingCandidates<Op>(problem)) {
      candidates.push_back({std::move(name), device});
    }
  }
  return candidates;
}

/// Copies of a test's tensors on a device, poisoned margins included. On the CPU they are the
/// tensors themselves. A tensor that ends before this keeps its memory until this ends, so that no
/// later one is taken for it.
class DeviceCopies {
 public:
  explicit DeviceCopies(Device device) : device_(device) {}
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Copied at the first call; later ones give the same memory.
  TensorView operator()(const HostTensor& tensor);
  /// Of a part of a tensor that was copied; of any other memory, a copy of the dense tensor.
  TensorView operator()(const TensorView& view);

  /// Copies again what was copied: the host memory has changed.
  void Send();

  /// Waits for the device, and gives the host tensors what is there now.
  void Fetch();

 private:
  struct Copy {
    const uint8_t* host;
    size_t bytes;
    void* block;
    std::shared_ptr<const HostTensor::Bytes> tensor_bytes;  // null for what is no tensor
  };
  const Copy& Add(const void* host, size_t bytes,
                  std::shared_ptr<const HostTensor::Bytes> tensor_bytes);
  const Copy* Find(const void* host) const;

  Device device_;
  std::vector<Copy> copies_;
};

}  // namespace flashinfer::test
