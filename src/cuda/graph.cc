// SPDX-License-Identifier: Apache-2.0
// Streams and graphs through the driver.
#include "cuda/graph.h"

#include <dlfcn.h>

#include <type_traits>

#include "core/check.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace flashinfer::cuda {
namespace {

using Graph = struct GraphTag*;

/// Entry points of libcuda, by their names there; every driver of CUDA 12 has them.
struct GraphDriver {
  Result (*cuStreamCreate)(StreamHandle*, unsigned flags);
  Result (*cuStreamDestroy_v2)(StreamHandle);
  Result (*cuStreamBeginCapture_v2)(StreamHandle, int mode);
  Result (*cuStreamEndCapture)(StreamHandle, Graph*);
  Result (*cuGraphInstantiateWithFlags)(void** exec, Graph, unsigned long long flags);
  Result (*cuGraphLaunch)(void* exec, StreamHandle);
  Result (*cuGraphDestroy)(Graph);
  Result (*cuGraphExecDestroy)(void* exec);
};

const GraphDriver& GetGraphDriver() {
  static const GraphDriver driver = [] {
    GetDriver();  // throws where there is none
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    GraphDriver d{};
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) {
        throw Error(ErrorKind::kDevice, fmt::format("the CUDA driver lacks {}", name));
      }
    };
    find(d.cuStreamCreate, "cuStreamCreate");
    find(d.cuStreamDestroy_v2, "cuStreamDestroy_v2");
    find(d.cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2");
    find(d.cuStreamEndCapture, "cuStreamEndCapture");
    find(d.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
    find(d.cuGraphLaunch, "cuGraphLaunch");
    find(d.cuGraphDestroy, "cuGraphDestroy");
    find(d.cuGraphExecDestroy, "cuGraphExecDestroy");
    return d;
  }();
  return driver;
}

StreamHandle Handle(Stream stream) { return static_cast<StreamHandle>(stream.handle); }

/// What was recorded, empty when it did not end well.
Graph EndCapture(Stream stream) {
  Graph graph = nullptr;
  const Result result = GetGraphDriver().cuStreamEndCapture(Handle(stream), &graph);
  return result == kSuccess ? graph : nullptr;
}

}  // namespace

Stream CreateStream(Device device) {
  constexpr unsigned kNonBlocking = 1;
  const CurrentDevice current(Properties(device));
  StreamHandle handle = nullptr;
  Check(GetGraphDriver().cuStreamCreate(&handle, kNonBlocking), "cuStreamCreate");
  return {device, handle};
}

void DestroyStream(Stream stream) { GetGraphDriver().cuStreamDestroy_v2(Handle(stream)); }

void CopyOnDevice(void* to, const void* from, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  const auto pointer = [](const void* p) { return reinterpret_cast<DevicePointer>(p); };
  Check(GetDriver().cuMemcpyAsync(pointer(to), pointer(from), bytes, Handle(stream)),
        "cuMemcpyAsync");
}

void* RecordGraph(Stream stream, const std::function<void()>& work) {
  const GraphDriver& driver = GetGraphDriver();
  const CurrentDevice current(Properties(stream.device));
  constexpr int kThreadLocal = 1;
  Check(driver.cuStreamBeginCapture_v2(Handle(stream), kThreadLocal), "cuStreamBeginCapture_v2");
  try {
    work();
  } catch (...) {
    if (Graph graph = EndCapture(stream)) driver.cuGraphDestroy(graph);
    throw;
  }
  Graph graph = nullptr;
  Check(driver.cuStreamEndCapture(Handle(stream), &graph), "cuStreamEndCapture");
  void* exec = nullptr;
  const Result result = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver.cuGraphDestroy(graph);
  Check(result, "cuGraphInstantiateWithFlags");
  return exec;
}

void LaunchGraph(void* graph, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetGraphDriver().cuGraphLaunch(graph, Handle(stream)), "cuGraphLaunch");
}

void DestroyGraph(void* graph) { GetGraphDriver().cuGraphExecDestroy(graph); }

}  // namespace flashinfer::cuda
