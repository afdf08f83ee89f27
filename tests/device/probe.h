// SPDX-License-Identifier: Apache-2.0
// Probes: kernels that run one piece of the device library alone, compiled as any other kernel is.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "cuda/memory.h"
#include "device/probe_params.h"
#include "flashinfer/stream.h"
#include "jit/source.h"

namespace flashinfer::probe {

/// A function template of tests/device/<stem>_probe.cuh, as a kernel.
struct Probe {
  std::string function;  ///< of namespace flashinfer::probe, `MmaK16<DType::kF16>`
  std::string header;    ///< `device/mma_probe.cuh`
  int32_t min_arch = 75;
  int32_t only_arch =
      0;  ///< the one that has the instruction, in its `a` form; 0: all from min_arch
  int32_t num_threads = 32;
  int32_t smem_bytes = 0;
};

jit::Unit Render(const Probe& probe);

/// Compiles probes for each of the architectures 75, 80, 90a and 120a that has them. Needs no GPU.
void ExpectCompiles(const std::vector<Probe>& probes);

/// Why `probe` cannot run here; empty when it can.
std::string WhyNot(const Probe& probe);

/// Device memory with a copy of host values.
class Buffer {
 public:
  template <class T>
  explicit Buffer(const std::vector<T>& values)
      : Buffer(values.data(), values.size() * sizeof(T)) {}
  /// Filled with 0xff: NaN in every float format.
  explicit Buffer(size_t bytes) : Buffer(std::vector<uint8_t>(bytes, 0xff)) {}

  void* data() const { return data_; }
  template <class T>
  std::vector<T> Read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    cuda::CopyToHost(values.data(), data_, bytes_, {Device{DeviceType::kCuda, 0}});
    cuda::Synchronize({Device{DeviceType::kCuda, 0}});
    return values;
  }

 private:
  Buffer(const void* from, size_t bytes);
  size_t bytes_;
  Workspace workspace_{Device{DeviceType::kCuda, 0}};
  void* data_;
};

void Launch(const Probe& probe, const ProbeParams& params, const cuda::LaunchShape& shape = {});

/// The seed of a test's data, printed.
std::mt19937 Random();

}  // namespace flashinfer::probe
