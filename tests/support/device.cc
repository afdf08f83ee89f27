// SPDX-License-Identifier: Apache-2.0
// Tensors of tests on CUDA devices.
#include "support/device.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "cuda/memory.h"

namespace flashinfer::test {

const std::vector<Device>& TestDevices() {
  static const auto& devices = *new std::vector<Device>([] {
    const char* only = std::getenv("FLASHINFER_TEST_DEVICE");
    const std::string_view asked = only == nullptr ? "" : only;
    std::vector<Device> found;
    if (asked != "cuda") found.push_back({});
    if (asked != "cpu" && cuda::NumDevices() > 0) found.push_back({DeviceType::kCuda, 0});
    return found;
  }());
  return devices;
}

DeviceCopies::~DeviceCopies() {
  for (const Copy& copy : copies_) cuda::Deallocate(nullptr, copy.block, copy.bytes + 1, device_);
}

const DeviceCopies::Copy* DeviceCopies::Find(const void* host) const {
  const auto* at = static_cast<const uint8_t*>(host);
  for (const Copy& copy : copies_) {
    if (at >= copy.host && (at < copy.host + copy.bytes || at == copy.host)) return &copy;
  }
  return nullptr;
}

const DeviceCopies::Copy& DeviceCopies::Add(const void* host, size_t bytes,
                                            std::shared_ptr<const HostTensor::Bytes> tensor_bytes) {
  void* block = cuda::Allocate(nullptr, bytes + 1, device_);  // an address even for nothing
  FLASHINFER_ASSERT(block != nullptr, "no device memory for a test");
  cuda::CopyToDevice(block, host, bytes, {device_});
  cuda::Synchronize({device_});
  copies_.push_back({static_cast<const uint8_t*>(host), bytes, block, std::move(tensor_bytes)});
  return copies_.back();
}

TensorView DeviceCopies::operator()(const HostTensor& tensor) {
  if (device_.type == DeviceType::kCpu) return tensor.view();
  const uint8_t* host = tensor.bytes().data();
  if (Find(host) == nullptr) Add(host, tensor.bytes().size(), tensor.SharedBytes());
  return (*this)(tensor.view());
}

TensorView DeviceCopies::operator()(const TensorView& view) {
  if (device_.type == DeviceType::kCpu || !view.defined()) return view;
  const Copy* copy = Find(view.data());
  if (copy == nullptr) {
    FLASHINFER_ASSERT(view.is_contiguous(), "a strided view of memory that was not copied");
    copy = &Add(view.data(), static_cast<size_t>(view.num_elements() * SizeBytes(view.dtype())),
                nullptr);
  }
  const int64_t offset = view.data_as<const uint8_t>() - copy->host;
  return {static_cast<uint8_t*>(copy->block) + offset, view.dtype(), view.shape(), view.strides(),
          device_};
}

void DeviceCopies::Send() {
  for (const Copy& copy : copies_) cuda::CopyToDevice(copy.block, copy.host, copy.bytes, {device_});
  if (!copies_.empty()) cuda::Synchronize({device_});
}

void DeviceCopies::Fetch() {
  for (const Copy& copy : copies_) {
    if (copy.tensor_bytes == nullptr) continue;
    cuda::CopyToHost(const_cast<uint8_t*>(copy.host), copy.block, copy.bytes, {device_});
  }
  if (!copies_.empty()) cuda::Synchronize({device_});
}

}  // namespace flashinfer::test
