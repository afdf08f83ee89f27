// SPDX-License-Identifier: Apache-2.0
// Where kernels come from: memory, packs, disk, compiler, in that order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "jit/binary.h"
#include "jit/disk_cache.h"
#include "jit/key.h"
#include "jit/source.h"

namespace flashinfer::jit {

enum class Origin : uint8_t { kMemory, kPack, kDisk, kCompiled };
/// `memory`, `pack`, `disk`, `compiled`.
std::string_view Name(Origin origin);

struct Fetched {
  std::shared_ptr<const Binary> binary;
  Origin origin = Origin::kMemory;
  double seconds = 0;  ///< that this call took
};

/// The binary of a unit. Callers of one kernel wait for one compilation; others go on. Throws as
/// Compile() does, and kUnsupported when compiling is switched off or there is no compiler, naming
/// the kernel, what lacks it and the command that builds it.
Fetched Fetch(const Unit& unit, Target target);

/// The cache on disk.
DiskCache KernelCache();

/// Fetched and loaded; one object a kernel and device, kept as long as the process.
const cuda::Kernel& Load(const Unit& unit, const cuda::DeviceProperties& device);

/// How many kernels Fetch() was asked for, for the test that run() never does.
int64_t NumFetches();

/// The kernels of one family that are loaded. A look-up compares specs and takes no lock.
template <class Spec>
class KernelTable {
 public:
  const cuda::Kernel& Get(const Spec& spec, const cuda::DeviceProperties& device) {
    const Node* node = Find(spec, device);
    return node != nullptr ? *node->kernel : Add(spec, device);
  }

 private:
  struct Node {
    Spec spec;
    const cuda::Kernel* kernel;
    const Node* next;
  };
  const Node* Find(const Spec& spec, const cuda::DeviceProperties& device) const {
    const Node* node = first_.load(std::memory_order_acquire);
    while (node != nullptr && (node->kernel->device != &device || !(node->spec == spec))) {
      node = node->next;
    }
    return node;
  }
  const cuda::Kernel& Add(const Spec& spec, const cuda::DeviceProperties& device) {
    const cuda::Kernel& kernel = Load(Render(spec), device);
    const std::lock_guard lock(mutex_);
    if (const Node* node = Find(spec, device)) return *node->kernel;
    first_.store(new Node{spec, &kernel, first_.load(std::memory_order_relaxed)},
                 std::memory_order_release);
    return kernel;
  }

  std::atomic<const Node*> first_{nullptr};  // nodes are never freed
  std::mutex mutex_;
};

/// The kernel of a spec on a CUDA device, ready to launch. The first call fetches and loads it;
/// later ones cost some tens of nanoseconds. Throws as Fetch() and cuda::LoadKernel() do.
template <class Spec>
const cuda::Kernel& GetKernel(const Spec& spec, Device device) {
  static KernelTable<Spec>& table = *new KernelTable<Spec>;
  return table.Get(spec, cuda::Properties(device));
}

}  // namespace flashinfer::jit
