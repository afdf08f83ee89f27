// SPDX-License-Identifier: Apache-2.0
// CUDA devices as an engine needs them: which there are, copies, streams, and recorded work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// 0 without a driver.
FLASHINFER_API int32_t NumCudaDevices();

/// The first CUDA device, where kernels can be had: there is a compiler, or a pack. Host memory
/// otherwise, or where FLASHINFER_BACKEND says so.
FLASHINFER_API Device DefaultDevice();

/// `cpu`, `cuda:1`, or `auto` for DefaultDevice(). Throws kInvalidArgument for another word, or
/// when there is no such device.
FLASHINFER_API Device ParseDevice(std::string_view text);

/// The field `arch` of a problem: 0 in host memory, 90 on a device of compute capability 9.0.
/// Throws kInvalidArgument when there is no such device, kDevice without a driver.
FLASHINFER_API int32_t ArchOf(Device device);

/// Copies all elements, in the order of `stream`. Both tensors are dense, of one dtype and shape;
/// each is in host memory or on a CUDA device. Host memory has been read or written when the call
/// returns.
FLASHINFER_API void Copy(const TensorView& from, const TensorView& to, Stream stream = {});

/// Copies in host memory of tables on a CUDA device, for what reads them on the host: copied one
/// behind another to page-locked memory, and waited for once. One object serves one thread at a
/// time.
class FLASHINFER_API HostCopies {
 public:
  HostCopies();
  HostCopies(HostCopies&&) noexcept;
  HostCopies& operator=(HostCopies&&) noexcept;
  ~HostCopies();

  /// Each view on the device of `stream` becomes one of its copy, with the same strides (0 or
  /// more), which lives until the next call; undefined ones and those in host memory stay. What was
  /// enqueued before is waited for. Throws kInvalidArgument for a tensor on another device.
  void Fetch(std::span<TensorView* const> tables, Stream stream);

  /// Begins what a Fetch() of the same tables on the same stream ends: in between the host may do
  /// other work. Another Fetch() forgets it.
  void Begin(std::span<TensorView* const> tables, Stream stream);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Waits until all work of the stream is done.
FLASHINFER_API void Synchronize(Stream stream);

/// A stream of a CUDA device that lives as long as the object.
class FLASHINFER_API OwnedStream {
 public:
  explicit OwnedStream(Device device);
  OwnedStream(OwnedStream&&) noexcept;
  OwnedStream& operator=(OwnedStream&&) noexcept;
  ~OwnedStream();

  Stream stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Work on a CUDA device that is recorded once and launched many times, as one: a CUDA graph.
class FLASHINFER_API RecordedWork {
 public:
  /// Calls `work`, which gives operators the stream; they are recorded, not run. It must have run
  /// before with tensors of the same kind, so that kernels are loaded and workspaces large enough.
  /// `stream` is not a device's default one. What is recorded are addresses: the memory must stay.
  RecordedWork(Stream stream, const std::function<void()>& work);
  RecordedWork(RecordedWork&&) noexcept;
  RecordedWork& operator=(RecordedWork&&) noexcept;
  ~RecordedWork();

  void Launch(Stream stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer
