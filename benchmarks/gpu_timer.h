// SPDX-License-Identifier: Apache-2.0
// Times work on a CUDA device: graph replays between events, each after the L2 cache was flushed.
#pragma once

#include <functional>
#include <memory>

#include "flashinfer/stream.h"

namespace flashinfer::bench {

class GpuTimer {
 public:
  explicit GpuTimer(Device device);
  ~GpuTimer();

  /// Median µs of what `run` enqueues on the stream, over `num_samples` replays. It is called once
  /// to warm up, which may compile, and once to be recorded.
  double MedianUs(const std::function<void(Stream)>& run, int num_samples = 30);

  Stream stream() const;

  /// The rate, of bytes read and written together, at which kernels that do little else go through
  /// memory that is many times the L2 cache; timed as all work is, once.
  double MemoryGbPerS();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer::bench
