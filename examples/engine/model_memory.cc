// SPDX-License-Identifier: Apache-2.0
// Memory of a model, mapped on the CPU and taken from workspaces on CUDA devices.
#include "engine/model_memory.h"

#include <sys/mman.h>

#include <utility>

#include <fmt/format.h>

#include "flashinfer/device.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {

DeviceMemory::DeviceMemory(size_t bytes, Device device) : workspace_(device) {
  if (bytes == 0) return;
  if (device.type == DeviceType::kCuda) {
    data_ = workspace_.Reserve(bytes);
    return;
  }
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (data_ == MAP_FAILED) {
    throw Error(ErrorKind::kDevice, fmt::format("no memory for {} MiB", bytes >> 20));
  }
  mapped_bytes_ = bytes;
  madvise(data_, bytes, MADV_HUGEPAGE);  // decode reads a fifth faster from such
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : workspace_(std::move(other.workspace_)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(workspace_, other.workspace_);
  std::swap(data_, other.data_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (mapped_bytes_ > 0) munmap(data_, mapped_bytes_);
}

Vector::Vector(std::span<const float> values, Device device)
    : memory_(values.size_bytes(), device), size_(static_cast<int64_t>(values.size())) {
  if (size_ > 0) Copy({values.data(), DType::kF32, {size_}}, view());
}

TensorView Vector::view() const {
  if (size_ == 0) return {};
  return {memory_.data(), DType::kF32, {size_}, memory_.device()};
}

TensorView StepList::Put(const TensorView& host, Stream stream) {
  const Device device = memory_.device();
  if (device.type == DeviceType::kCpu) return host;
  // Room for twice as many, so that the address seldom changes.
  size_t bytes = static_cast<size_t>(host.num_elements() + 1) * SizeBytes(host.dtype());
  if (bytes > memory_.capacity_bytes()) bytes *= 2;
  const TensorView list(memory_.Reserve(bytes), host.dtype(), host.shape(), device);
  Copy(host, list, stream);
  return list;
}

}  // namespace flashinfer::engine
