// SPDX-License-Identifier: Apache-2.0
// Opens libcuda.so.1 once and fills the function table.
#include "cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "flashinfer/error.h"

namespace flashinfer::cuda {
namespace {

struct Opened {
  Driver driver{};
  bool is_usable = false;
  std::string why;
};

template <class Function>
bool Find(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
  return function != nullptr;
}

std::string ErrorName(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != kSuccess || name == nullptr) return "unknown error";
  if (driver.cuGetErrorString(result, &text) != kSuccess || text == nullptr) return name;
  return fmt::format("{}, {}", name, text);
}

/// Every entry of the table, so that a driver that lacks one is refused with its name.
std::string FindAll(void* library, Driver& d) {
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    Find(library, name, function, missing);
  };
  find("cuInit", d.cuInit);
  find("cuDriverGetVersion", d.cuDriverGetVersion);
  find("cuGetErrorName", d.cuGetErrorName);
  find("cuGetErrorString", d.cuGetErrorString);
  find("cuDeviceGetCount", d.cuDeviceGetCount);
  find("cuDeviceGet", d.cuDeviceGet);
  find("cuDeviceGetName", d.cuDeviceGetName);
  find("cuDeviceGetAttribute", d.cuDeviceGetAttribute);
  find("cuDeviceTotalMem_v2", d.cuDeviceTotalMem_v2);
  find("cuDevicePrimaryCtxRetain", d.cuDevicePrimaryCtxRetain);
  find("cuCtxGetCurrent", d.cuCtxGetCurrent);
  find("cuCtxGetDevice", d.cuCtxGetDevice);
  find("cuCtxPushCurrent_v2", d.cuCtxPushCurrent_v2);
  find("cuCtxPopCurrent_v2", d.cuCtxPopCurrent_v2);
  find("cuMemAlloc_v2", d.cuMemAlloc_v2);
  find("cuMemFree_v2", d.cuMemFree_v2);
  find("cuMemAllocHost_v2", d.cuMemAllocHost_v2);
  find("cuMemFreeHost", d.cuMemFreeHost);
  find("cuMemcpyAsync", d.cuMemcpyAsync);
  find("cuMemcpyHtoDAsync_v2", d.cuMemcpyHtoDAsync_v2);
  find("cuMemcpyDtoHAsync_v2", d.cuMemcpyDtoHAsync_v2);
  find("cuMemsetD8Async", d.cuMemsetD8Async);
  find("cuStreamCreate", d.cuStreamCreate);
  find("cuStreamDestroy_v2", d.cuStreamDestroy_v2);
  find("cuStreamSynchronize", d.cuStreamSynchronize);
  find("cuStreamBeginCapture_v2", d.cuStreamBeginCapture_v2);
  find("cuStreamEndCapture", d.cuStreamEndCapture);
  find("cuGraphInstantiateWithFlags", d.cuGraphInstantiateWithFlags);
  find("cuGraphLaunch", d.cuGraphLaunch);
  find("cuGraphDestroy", d.cuGraphDestroy);
  find("cuGraphExecDestroy", d.cuGraphExecDestroy);
  find("cuLibraryLoadData", d.cuLibraryLoadData);
  find("cuLibraryUnload", d.cuLibraryUnload);
  find("cuLibraryGetKernel", d.cuLibraryGetKernel);
  find("cuKernelGetFunction", d.cuKernelGetFunction);
  find("cuKernelGetAttribute", d.cuKernelGetAttribute);
  find("cuKernelSetAttribute", d.cuKernelSetAttribute);
  find("cuOccupancyMaxActiveBlocksPerMultiprocessor",
       d.cuOccupancyMaxActiveBlocksPerMultiprocessor);
  find("cuLaunchKernelEx", d.cuLaunchKernelEx);
  find("cuTensorMapEncodeTiled", d.cuTensorMapEncodeTiled);
  return missing;
}

Opened Open() {
  Opened opened;
  // Never closed: the driver does not survive being unloaded.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    opened.why = "no CUDA driver: libcuda.so.1 cannot be opened";
    return opened;
  }
  Driver& driver = opened.driver;
  const std::string missing = FindAll(library, driver);
  if (!missing.empty()) {
    opened.why =
        fmt::format("the CUDA driver lacks {}; a driver of CUDA 12.0 or later is needed", missing);
    return opened;
  }
  int count = 0;
  Result result = driver.cuInit(0);
  if (result == kSuccess) result = driver.cuDeviceGetCount(&count);
  if (result != kSuccess) {
    opened.why = fmt::format("the CUDA driver does not start: {}", ErrorName(driver, result));
  } else if (count == 0) {
    opened.why = "the CUDA driver sees no device";
  }
  opened.is_usable = opened.why.empty();
  return opened;
}

const Opened& GetOpened() {
  static const Opened& opened = *new Opened(Open());
  return opened;
}

}  // namespace

const Driver* FindDriver(std::string* why) {
  const Opened& opened = GetOpened();
  if (why != nullptr) *why = opened.why;
  return opened.is_usable ? &opened.driver : nullptr;
}

const Driver& GetDriver() {
  const Opened& opened = GetOpened();
  if (!opened.is_usable) [[unlikely]]
    throw Error(ErrorKind::kDevice, opened.why);
  return opened.driver;
}

void Check(Result result, const char* call) {
  if (result == kSuccess) [[likely]]
    return;
  throw Error(ErrorKind::kDevice,
              fmt::format("{}: error {}, {}", call, result, ErrorName(GetDriver(), result)));
}

}  // namespace flashinfer::cuda
