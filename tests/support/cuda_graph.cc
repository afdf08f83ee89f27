// SPDX-License-Identifier: Apache-2.0
// The driver's functions for graphs, which the library itself does not need.
#include "support/cuda_graph.h"

#include <dlfcn.h>

#include "core/check.h"
#include "cuda/device.h"

namespace flashinfer::test {
namespace {

/// Calls an entry of libcuda by name.
template <class... Arguments>
void Call(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  FLASHINFER_ASSERT(library != nullptr, "libcuda.so.1: {}", dlerror());
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  FLASHINFER_ASSERT(function != nullptr, "libcuda.so.1 has no {}", name);
  cuda::Check(function(arguments...), name);
}

constexpr unsigned kNonBlocking = 1;
constexpr int kGlobalCapture = 0;  // unsafe calls of any kind fail while it lasts

}  // namespace

CudaStream::CudaStream(Device device) : stream_{device} {
  const cuda::CurrentDevice current(cuda::Properties(device));
  Call("cuStreamCreate", &stream_.handle, kNonBlocking);
}

CudaStream::~CudaStream() {
  const cuda::CurrentDevice current(cuda::Properties(stream_.device));
  Call("cuStreamDestroy_v2", stream_.handle);
}

CudaGraph::CudaGraph(Stream stream, const std::function<void(Stream)>& work) {
  const cuda::CurrentDevice current(cuda::Properties(stream.device));
  void* graph = nullptr;
  Call("cuStreamBeginCapture_v2", stream.handle, kGlobalCapture);
  work(stream);
  Call("cuStreamEndCapture", stream.handle, &graph);
  Call("cuGraphInstantiateWithFlags", &executable_, graph, 0ULL);
  Call("cuGraphDestroy", graph);
}

CudaGraph::~CudaGraph() { Call("cuGraphExecDestroy", executable_); }

void CudaGraph::Launch(Stream stream) const {
  const cuda::CurrentDevice current(cuda::Properties(stream.device));
  Call("cuGraphLaunch", executable_, stream.handle);
}

}  // namespace flashinfer::test
