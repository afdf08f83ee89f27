// SPDX-License-Identifier: Apache-2.0
// Growable and borrowed workspaces, and the allocators behind them.
#include <array>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "core/check.h"
#include "cuda/memory.h"
#include "flashinfer/stream.h"

namespace flashinfer {
namespace {

constexpr size_t kAlignment = 256;

void* AllocateCpu(void*, size_t bytes, Device) {
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}
void DeallocateCpu(void*, void* block, size_t, Device) { std::free(block); }

/// The library's own, by device type.
constexpr std::array<Allocator, 2> kOwn{
    {{AllocateCpu, DeallocateCpu, nullptr}, {cuda::Allocate, cuda::Deallocate, nullptr}}};

struct Allocators {
  std::mutex mutex;
  std::array<Allocator, 2> by_type = kOwn;
};

Allocators& GetAllocators() {
  static Allocators& allocators = *new Allocators;
  return allocators;
}

Allocator GetAllocator(DeviceType type) {
  Allocators& allocators = GetAllocators();
  const std::lock_guard lock(allocators.mutex);
  return allocators.by_type[static_cast<size_t>(type)];
}

}  // namespace

void SetAllocator(DeviceType type, const Allocator& allocator) {
  FLASHINFER_CHECK((allocator.allocate == nullptr) == (allocator.deallocate == nullptr),
                   "allocator: allocate and deallocate must be given together");
  Allocators& allocators = GetAllocators();
  const std::lock_guard lock(allocators.mutex);
  const auto index = static_cast<size_t>(type);
  allocators.by_type[index] = allocator.allocate == nullptr ? kOwn[index] : allocator;
}

struct Workspace::Impl {
  Device device;
  void* block = nullptr;
  size_t bytes = 0;
  bool is_borrowed = false;
  bool is_frozen = false;
  Allocator owner;

  void Release() {
    if (block != nullptr && !is_borrowed) owner.deallocate(owner.context, block, bytes, device);
    block = nullptr;
    bytes = 0;
  }
  ~Impl() { Release(); }
};

Workspace::Workspace(Device device) : impl_(std::make_unique<Impl>()) { impl_->device = device; }
Workspace::Workspace(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() = default;

Workspace Workspace::Borrow(void* block, size_t bytes, Device device) {
  FLASHINFER_CHECK(block != nullptr || bytes == 0, "block: is null, expected {} bytes", bytes);
  FLASHINFER_CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0,
                   "block: {} is not aligned to 64 bytes", fmt::ptr(block));
  auto impl = std::make_unique<Impl>();
  impl->device = device;
  impl->block = block;
  impl->bytes = bytes;
  impl->is_borrowed = true;
  return Workspace(std::move(impl));
}

void* Workspace::Reserve(size_t bytes) {
  Impl& w = *impl_;
  if (bytes <= w.bytes) return w.block;
  FLASHINFER_CHECK(!w.is_borrowed,
                   "workspace: {} bytes are needed, {} were given; WorkspaceBytes() of the "
                   "operator tells the need",
                   bytes, w.bytes);
  FLASHINFER_CHECK(!w.is_frozen,
                   "workspace: {} bytes are needed, but it is frozen at {} for graph capture; "
                   "plan the largest problem before freezing",
                   bytes, w.bytes);
  const Allocator allocator = GetAllocator(w.device.type);
  void* block = allocator.allocate(allocator.context, bytes, w.device);
  if (block == nullptr) {
    throw Error(ErrorKind::kDevice,
                fmt::format("workspace: could not get {} bytes on {}", bytes, Name(w.device)));
  }
  w.Release();
  w.block = block;
  w.bytes = bytes;
  w.owner = allocator;
  return block;
}

void Workspace::Freeze() { impl_->is_frozen = true; }
bool Workspace::is_frozen() const { return impl_->is_frozen; }
size_t Workspace::capacity_bytes() const { return impl_->bytes; }
size_t Workspace::max_bytes() const {
  const bool is_fixed = impl_->is_borrowed || impl_->is_frozen;
  return is_fixed ? impl_->bytes : std::numeric_limits<size_t>::max();
}
Device Workspace::device() const { return impl_->device; }

}  // namespace flashinfer
