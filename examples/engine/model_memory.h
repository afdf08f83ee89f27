// SPDX-License-Identifier: Apache-2.0
// Memory of a model: matrices, vectors and lists of integers, on the device that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer::engine {

/// A block of a device's memory; on the CPU it takes no space until it is written.
class DeviceMemory {
 public:
  DeviceMemory(size_t bytes, Device device);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  char* data() const { return static_cast<char*>(data_); }
  Device device() const { return workspace_.device(); }

 private:
  Workspace workspace_;  ///< of a CUDA device
  void* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

/// A dense f32 matrix of up to `max_rows` rows.
class Matrix {
 public:
  Matrix(int64_t max_rows, int64_t cols, Device device)
      : memory_(static_cast<size_t>(max_rows * cols) * sizeof(float), device), cols_(cols) {}
  TensorView Rows(int64_t num_rows) const {
    return {memory_.data(), DType::kF32, {num_rows, cols_}, memory_.device()};
  }

 private:
  DeviceMemory memory_;
  int64_t cols_;
};

/// A copy of f32 values; an undefined view when there are none.
class Vector {
 public:
  explicit Vector(std::span<const float> values = {}, Device device = {});
  bool empty() const { return size_ == 0; }
  TensorView view() const;

 private:
  DeviceMemory memory_;
  int64_t size_;
};

/// A list that changes with every step, where the device can read it.
class StepList {
 public:
  explicit StepList(Device device) : memory_(device) {}
  /// Of a list in host memory: itself on the CPU, a copy on a CUDA device, valid until the next
  /// call.
  TensorView Put(const TensorView& host, Stream stream);

 private:
  Workspace memory_;
};

}  // namespace flashinfer::engine
