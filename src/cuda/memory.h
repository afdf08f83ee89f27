// SPDX-License-Identifier: Apache-2.0
// Device memory of the library's own, and copies to and from it.
#pragma once

#include <cstddef>

#include "flashinfer/stream.h"

namespace flashinfer::cuda {

/// cuMemAlloc and cuMemFree as an Allocator, for workspaces whose engine has set none.
void* Allocate(void* context, size_t bytes, Device device);
void Deallocate(void* context, void* block, size_t bytes, Device device);

/// Page-locked host memory, which copies need not pass through the driver's own; throws kDevice.
void* AllocatePinned(size_t bytes, Device device);
void DeallocatePinned(void* block, Device device);

// In the order of `stream`; `stream.device` is the device. Copies from and to pageable host memory
// have read or written it when they return.
void CopyToDevice(void* to, const void* from, size_t bytes, Stream stream);
void CopyToHost(void* to, const void* from, size_t bytes, Stream stream);
/// To page-locked memory, which holds the copy after Synchronize().
void CopyToPinned(void* to, const void* from, size_t bytes, Stream stream);
void FillBytes(void* block, unsigned char value, size_t bytes, Stream stream);
void Synchronize(Stream stream);

}  // namespace flashinfer::cuda
