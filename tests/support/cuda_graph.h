// SPDX-License-Identifier: Apache-2.0
// Streams and captured graphs of a CUDA device.
#pragma once

#include <functional>

#include "flashinfer/stream.h"

namespace flashinfer::test {

/// A stream that does not wait for the default one.
class CudaStream {
 public:
  explicit CudaStream(Device device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_;
};

/// What `work` enqueues on a stream, recorded and not run.
class CudaGraph {
 public:
  CudaGraph(Stream stream, const std::function<void(Stream)>& work);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void Launch(Stream stream) const;

 private:
  void* executable_ = nullptr;
};

}  // namespace flashinfer::test
