// SPDX-License-Identifier: Apache-2.0
// Tensors of benchmarks on a CUDA device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "core/check.h"
#include "core/convert.h"
#include "cuda/memory.h"
#include "flashinfer/tensor.h"

namespace flashinfer::bench {

/// A dense tensor of a device, of random values or of the given integers.
class GpuTensor {
 public:
  /// bf16, N(0, 1).
  GpuTensor(std::initializer_list<int64_t> shape, Device device)
      : GpuTensor(DType::kBF16, Dims(shape), device) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    // A million values, repeated: the memory does not see it, and they are quick to make.
    std::vector<uint16_t> values(size_t{1} << 20);
    for (uint16_t& x : values) x = FromFloat<BF16>(normal(rng)).bits;
    for (int64_t at = 0; at < bytes_; at += static_cast<int64_t>(2 * values.size())) {
      const auto part = std::min(bytes_ - at, static_cast<int64_t>(2 * values.size()));
      cuda::CopyToDevice(static_cast<char*>(view_.data()) + at, values.data(),
                         static_cast<size_t>(part), {device});
    }
    cuda::Synchronize({device});
  }

  GpuTensor(const std::vector<int32_t>& values, Device device)
      : GpuTensor(DType::kI32, {static_cast<int64_t>(values.size())}, device) {
    cuda::CopyToDevice(view_.data(), values.data(), static_cast<size_t>(bytes_), {device});
    cuda::Synchronize({device});
  }

  /// f32; the values are repeated.
  GpuTensor(const std::vector<float>& values, std::initializer_list<int64_t> shape, Device device)
      : GpuTensor(DType::kF32, Dims(shape), device) {
    const auto step = static_cast<int64_t>(4 * values.size());
    for (int64_t at = 0; at < bytes_ && values.size() > 1; at += step) {
      cuda::CopyToDevice(static_cast<char*>(view_.data()) + at, values.data(),
                         static_cast<size_t>(std::min(bytes_ - at, step)), {device});
    }
    cuda::Synchronize({device});
  }

  ~GpuTensor() {
    cuda::Deallocate(nullptr, view_.data(), static_cast<size_t>(bytes_), view_.device());
  }
  GpuTensor(const GpuTensor&) = delete;
  GpuTensor& operator=(const GpuTensor&) = delete;

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT(google-explicit-constructor)

 private:
  GpuTensor(DType dtype, Dims shape, Device device) {
    bytes_ =
        TensorView(static_cast<void*>(nullptr), dtype, shape).num_elements() * SizeBytes(dtype);
    void* block = cuda::Allocate(nullptr, static_cast<size_t>(bytes_), device);
    FLASHINFER_CHECK(block != nullptr, "no {} bytes of device memory", bytes_);
    view_ = TensorView(block, dtype, shape, device);
  }

  int64_t bytes_ = 0;
  TensorView view_;
};

}  // namespace flashinfer::bench
