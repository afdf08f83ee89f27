// SPDX-License-Identifier: Apache-2.0
// Device memory through the driver.
#include "cuda/memory.h"

#include <bit>

#include "cuda/device.h"

namespace flashinfer::cuda {
namespace {

DevicePointer Pointer(const void* address) { return reinterpret_cast<DevicePointer>(address); }
StreamHandle Handle(Stream stream) { return static_cast<StreamHandle>(stream.handle); }

}  // namespace

void* Allocate(void*, size_t bytes, Device device) {
  const CurrentDevice current(Properties(device));
  DevicePointer block = 0;
  const Result result = GetDriver().cuMemAlloc_v2(&block, bytes);
  if (result == kOutOfMemory) return nullptr;
  Check(result, "cuMemAlloc_v2");
  return std::bit_cast<void*>(block);
}

void Deallocate(void*, void* block, size_t, Device device) {
  const CurrentDevice current(Properties(device));
  // The result is left alone: at exit the driver may be gone, and then so is the memory.
  GetDriver().cuMemFree_v2(Pointer(block));
}

void* AllocatePinned(size_t bytes, Device device) {
  const CurrentDevice current(Properties(device));
  void* block = nullptr;
  Check(GetDriver().cuMemAllocHost_v2(&block, bytes), "cuMemAllocHost_v2");
  return block;
}

void DeallocatePinned(void* block, Device device) {
  const CurrentDevice current(Properties(device));
  GetDriver().cuMemFreeHost(block);  // as in Deallocate()
}

void CopyToDevice(void* to, const void* from, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetDriver().cuMemcpyHtoDAsync_v2(Pointer(to), from, bytes, Handle(stream)),
        "cuMemcpyHtoDAsync_v2");
}

void CopyToPinned(void* to, const void* from, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetDriver().cuMemcpyDtoHAsync_v2(to, Pointer(from), bytes, Handle(stream)),
        "cuMemcpyDtoHAsync_v2");
}

void CopyToHost(void* to, const void* from, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  CopyToPinned(to, from, bytes, stream);
  Check(GetDriver().cuStreamSynchronize(Handle(stream)), "cuStreamSynchronize");
}

void FillBytes(void* block, unsigned char value, size_t bytes, Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetDriver().cuMemsetD8Async(Pointer(block), value, bytes, Handle(stream)),
        "cuMemsetD8Async");
}

void Synchronize(Stream stream) {
  const CurrentDevice current(Properties(stream.device));
  Check(GetDriver().cuStreamSynchronize(Handle(stream)), "cuStreamSynchronize");
}

}  // namespace flashinfer::cuda
