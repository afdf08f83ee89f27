// SPDX-License-Identifier: Apache-2.0
// Streams of our own and recorded work: what engines need of the driver and operators do not.
#pragma once

#include <cstddef>
#include <functional>

#include "cuda/driver.h"
#include "flashinfer/stream.h"

namespace flashinfer::cuda {

/// A stream that does not wait for the default one.
Stream CreateStream(Device device);
void DestroyStream(Stream stream);

/// In the order of `stream`, from device memory to device memory.
void CopyOnDevice(void* to, const void* from, size_t bytes, Stream stream);

/// What `work` enqueues on the stream, which does not run.
GraphExecHandle RecordGraph(Stream stream, const std::function<void()>& work);
void LaunchGraph(GraphExecHandle graph, Stream stream);
void DestroyGraph(GraphExecHandle graph);

}  // namespace flashinfer::cuda
