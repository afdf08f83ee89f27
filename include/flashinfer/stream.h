// SPDX-License-Identifier: Apache-2.0
// Where work runs (Stream), and the scratch memory that it uses (Workspace, Allocator).
#pragma once

#include <cstddef>
#include <memory>

#include "flashinfer/export.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// An ordered queue of a device, held by value. `handle` is a CUstream on CUDA devices and unused
/// on the CPU, where an operator has finished when its call returns.
struct Stream {
  Device device;
  void* handle = nullptr;
};

/// How the library takes and gives back memory of one device type. `allocate` returns null when
/// there is no memory; blocks are aligned to 256 bytes or more.
struct Allocator {
  void* (*allocate)(void* context, size_t bytes, Device device) = nullptr;
  void (*deallocate)(void* context, void* block, size_t bytes, Device device) = nullptr;
  void* context = nullptr;
};

/// Installs an engine's allocator for the workspaces that grow from now on; blocks taken before go
/// back to the allocator that gave them. A default-constructed one restores the library's own.
FLASHINFER_API void SetAllocator(DeviceType type, const Allocator& allocator);

/// Scratch memory of plan/run objects.
///
/// By default the library owns it and it grows when a plan needs more than any plan before. With
/// Borrow() the caller owns it and it never grows: a plan that needs more throws kInvalidArgument
/// naming the bytes needed and given. Each op's WorkspaceBytes() gives the exact need; it never
/// falls when a limit rises.
class FLASHINFER_API Workspace {
 public:
  explicit Workspace(Device device = {});
  static Workspace Borrow(void* block, size_t bytes, Device device = {});

  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  ~Workspace();

  /// Makes sure of `bytes` and returns the block, which stays where it is until it grows.
  /// Contents are not kept across growth. Throws kInvalidArgument naming the size when the block
  /// is borrowed or frozen and too small, kDevice when memory is out.
  void* Reserve(size_t bytes);

  /// Forbids growth from now on, for graph capture: recorded addresses must stay valid.
  void Freeze();
  bool is_frozen() const;
  size_t capacity_bytes() const;
  /// What Reserve() can give at most: the capacity when borrowed or frozen, else no limit.
  size_t max_bytes() const;
  Device device() const;

 private:
  struct Impl;
  explicit Workspace(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer
