// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened at run time: the types and functions of libcuda that are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/tensor_map.h"

namespace flashinfer::cuda {

// Declared here and not taken from cuda.h, so that a build needs no CUDA toolkit. Layouts and
// values are those of CUDA 12 and 13; driver_layout_test compares them with cuda.h where that is
// found.
using Result = int;
using DeviceHandle = int;
using Context = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using Library = struct LibraryTag*;
using KernelHandle = struct KernelTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;
using DevicePointer = unsigned long long;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;

/// CUdevice_attribute.
enum class DeviceAttribute : int {
  kNumSms = 16,
  kL2Bytes = 38,
  kMaxThreadsPerSm = 39,
  kMajor = 75,
  kMinor = 76,
  kSmemPerSm = 81,
  kSmemPerBlock = 97,  ///< with opt-in
  kMaxBlocksPerSm = 106,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int {
  kStaticSmemBytes = 1,
  kLocalBytes = 3,
  kNumRegisters = 4,
  kMaxDynamicSmemBytes = 8,
  kNonPortableClusterSize = 14,
};

/// CUlaunchAttribute: an id and a 64-byte union.
struct LaunchAttribute {
  enum Id : unsigned { kCooperative = 2, kClusterSize = 4, kProgrammaticSerialization = 6 };
  Id id;
  uint32_t padding = 0;
  union {
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
    char bytes[64];
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned smem_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

/// Entry points of libcuda, by their names there.
struct Driver {
  Result (*cuInit)(unsigned flags);
  Result (*cuDriverGetVersion)(int* version);
  Result (*cuGetErrorName)(Result, const char** name);
  Result (*cuGetErrorString)(Result, const char** text);
  Result (*cuDeviceGetCount)(int* count);
  Result (*cuDeviceGet)(DeviceHandle*, int ordinal);
  Result (*cuDeviceGetName)(char* name, int size, DeviceHandle);
  Result (*cuDeviceGetAttribute)(int* value, DeviceAttribute, DeviceHandle);
  Result (*cuDeviceTotalMem_v2)(size_t* bytes, DeviceHandle);
  Result (*cuDevicePrimaryCtxRetain)(Context*, DeviceHandle);
  Result (*cuCtxGetCurrent)(Context*);
  Result (*cuCtxGetDevice)(DeviceHandle*);
  Result (*cuCtxPushCurrent_v2)(Context);
  Result (*cuCtxPopCurrent_v2)(Context*);
  Result (*cuMemAlloc_v2)(DevicePointer*, size_t bytes);
  Result (*cuMemFree_v2)(DevicePointer);
  Result (*cuMemAllocHost_v2)(void**, size_t bytes);
  Result (*cuMemFreeHost)(void*);
  Result (*cuMemcpyAsync)(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle);
  Result (*cuMemcpyHtoDAsync_v2)(DevicePointer to, const void* from, size_t bytes, StreamHandle);
  Result (*cuMemcpyDtoHAsync_v2)(void* to, DevicePointer from, size_t bytes, StreamHandle);
  Result (*cuMemsetD8Async)(DevicePointer, unsigned char value, size_t bytes, StreamHandle);
  Result (*cuStreamCreate)(StreamHandle*, unsigned flags);
  Result (*cuStreamDestroy_v2)(StreamHandle);
  Result (*cuStreamSynchronize)(StreamHandle);
  Result (*cuStreamBeginCapture_v2)(StreamHandle, int mode);
  Result (*cuStreamEndCapture)(StreamHandle, GraphHandle*);
  Result (*cuGraphInstantiateWithFlags)(GraphExecHandle*, GraphHandle, unsigned long long flags);
  Result (*cuGraphLaunch)(GraphExecHandle, StreamHandle);
  Result (*cuGraphDestroy)(GraphHandle);
  Result (*cuGraphExecDestroy)(GraphExecHandle);
  Result (*cuLibraryLoadData)(Library*, const void* code, int* jit_options, void** jit_values,
                              unsigned num_jit, int* library_options, void** library_values,
                              unsigned num_library);
  Result (*cuLibraryUnload)(Library);
  Result (*cuLibraryGetKernel)(KernelHandle*, Library, const char* name);
  Result (*cuKernelGetFunction)(FunctionHandle*, KernelHandle);
  Result (*cuKernelGetAttribute)(int* value, FunctionAttribute, KernelHandle, DeviceHandle);
  Result (*cuKernelSetAttribute)(FunctionAttribute, int value, KernelHandle, DeviceHandle);
  Result (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* num_blocks, FunctionHandle,
                                                        int block_size, size_t smem_bytes);
  Result (*cuLaunchKernelEx)(const LaunchConfig*, FunctionHandle, void** params, void** extra);
  Result (*cuTensorMapEncodeTiled)(TensorMap*, int data_type, uint32_t rank, void* data,
                                   const uint64_t* sizes, const uint64_t* stride_bytes,
                                   const uint32_t* box, const uint32_t* element_strides,
                                   int interleave, int swizzle, int l2_promotion, int fill);
};

/// The driver, opened and initialised at the first call; null when there is none or it sees no
/// device, with the reason in `why` when that is given.
const Driver* FindDriver(std::string* why = nullptr);

/// As FindDriver(), but throws kDevice with the reason.
const Driver& GetDriver();

/// Throws kDevice naming the call, the code and its text unless `result` is success.
void Check(Result result, const char* call);

}  // namespace flashinfer::cuda
