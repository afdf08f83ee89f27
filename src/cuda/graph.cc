// SPDX-License-Identifier: Apache-2.0
// Streams and graphs through the driver.
#include "cuda/graph.h"

#include "cuda/device.h"

namespace flashinfer::cuda {
namespace {

StreamHandle Handle(Stream stream) { return static_cast<StreamHandle>(stream.handle); }

}  // namespace

Stream CreateStream(Device device) {
  constexpr unsigned kNonBlocking = 1;
  const CurrentDevice current(Properties(device));
  StreamHandle handle = nullptr;
  Check(GetDriver().cuStreamCreate(&handle, kNonBlocking), "cuStreamCreate");
  return {device, handle};
}

void DestroyStream(Stream stream) { GetDriver().cuStreamDestroy_v2(Handle(stream)); }

void CopyOnDevice(void* to, const void* from, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  const auto pointer = [](const void* p) { return reinterpret_cast<DevicePointer>(p); };
  Check(GetDriver().cuMemcpyAsync(pointer(to), pointer(from), bytes, Handle(stream)),
        "cuMemcpyAsync");
}

GraphExecHandle RecordGraph(Stream stream, const std::function<void()>& work) {
  const Driver& driver = GetDriver();
  const CurrentDevice current(Properties(stream.device));
  constexpr int kThreadLocal = 1;
  Check(driver.cuStreamBeginCapture_v2(Handle(stream), kThreadLocal), "cuStreamBeginCapture_v2");
  GraphHandle graph = nullptr;
  try {
    work();
  } catch (...) {
    // The stream is usable again only after the capture ended, well or not.
    if (driver.cuStreamEndCapture(Handle(stream), &graph) == kSuccess) driver.cuGraphDestroy(graph);
    throw;
  }
  Check(driver.cuStreamEndCapture(Handle(stream), &graph), "cuStreamEndCapture");
  GraphExecHandle exec = nullptr;
  const Result result = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver.cuGraphDestroy(graph);
  Check(result, "cuGraphInstantiateWithFlags");
  return exec;
}

void LaunchGraph(GraphExecHandle graph, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetDriver().cuGraphLaunch(graph, Handle(stream)), "cuGraphLaunch");
}

void DestroyGraph(GraphExecHandle graph) { GetDriver().cuGraphExecDestroy(graph); }

}  // namespace flashinfer::cuda
