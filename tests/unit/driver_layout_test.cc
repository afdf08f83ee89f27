// SPDX-License-Identifier: Apache-2.0
// Our declarations of the CUDA driver against NVIDIA's own, where the toolkit is there.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "cuda/driver.h"
#include "cuda/tensor_map.h"

namespace flashinfer::cuda {
namespace {

static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, smem_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(DeviceHandle) == sizeof(CUdevice));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

TEST(DriverLayout, ValuesAreNvidias) {
  EXPECT_EQ(kSuccess, CUDA_SUCCESS);
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  const auto same = [](auto ours, auto theirs) {
    EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs));
  };
  same(DeviceAttribute::kNumSms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  same(DeviceAttribute::kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  same(DeviceAttribute::kMaxThreadsPerSm, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  same(DeviceAttribute::kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  same(DeviceAttribute::kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  same(DeviceAttribute::kSmemPerSm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  same(DeviceAttribute::kSmemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  same(DeviceAttribute::kMaxBlocksPerSm, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  same(FunctionAttribute::kStaticSmemBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  same(FunctionAttribute::kLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  same(FunctionAttribute::kNumRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  same(FunctionAttribute::kMaxDynamicSmemBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  same(FunctionAttribute::kNonPortableClusterSize,
       CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  same(LaunchAttribute::kCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  same(LaunchAttribute::kClusterSize, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  same(LaunchAttribute::kProgrammaticSerialization,
       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  same(TensorMapSwizzle::kNone, CU_TENSOR_MAP_SWIZZLE_NONE);
  same(TensorMapSwizzle::k32B, CU_TENSOR_MAP_SWIZZLE_32B);
  same(TensorMapSwizzle::k64B, CU_TENSOR_MAP_SWIZZLE_64B);
  same(TensorMapSwizzle::k128B, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace
}  // namespace flashinfer::cuda
