// SPDX-License-Identifier: Apache-2.0
// Loads CUBINs.
#include "cuda/kernel.h"

#include <fmt/format.h>

#include "flashinfer/error.h"

namespace flashinfer::cuda {

Kernel LoadKernel(std::string_view cubin, std::string_view name, int32_t num_threads,
                  int32_t smem_bytes, const DeviceProperties& device) {
  const Driver& driver = GetDriver();
  if (smem_bytes > device.smem_per_block_bytes) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: needs {} bytes of shared memory, {} has {}", name, smem_bytes,
                            device.name, device.smem_per_block_bytes));
  }
  const CurrentDevice current(device);
  const auto check = [&](Result result, const char* call) {
    Check(result, fmt::format("{} of {}", call, name).c_str());
  };
  Library library = nullptr;
  KernelHandle handle = nullptr;
  check(driver.cuLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
  check(driver.cuLibraryGetKernel(&handle, library, kEntryName), "cuLibraryGetKernel");
  if (smem_bytes > 48 * 1024) {
    check(driver.cuKernelSetAttribute(FunctionAttribute::kMaxDynamicSmemBytes, smem_bytes, handle,
                                      device.handle),
          "cuKernelSetAttribute");
  }
  // Loads the code now: a lazy load inside of a graph capture would fail.
  FunctionHandle function = nullptr;
  check(driver.cuKernelGetFunction(&function, handle), "cuKernelGetFunction");
  Kernel kernel{.device = &device,
                .function = reinterpret_cast<FunctionHandle>(handle),
                .num_threads = num_threads,
                .smem_bytes = smem_bytes,
                .num_registers = 0,
                .local_bytes = 0,
                .blocks_per_sm = 0,
                .name = std::string(name)};
  const auto read = [&](FunctionAttribute attribute, int& value) {
    check(driver.cuKernelGetAttribute(&value, attribute, handle, device.handle),
          "cuKernelGetAttribute");
  };
  read(FunctionAttribute::kNumRegisters, kernel.num_registers);
  read(FunctionAttribute::kLocalBytes, kernel.local_bytes);
  check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &kernel.blocks_per_sm, function, num_threads, static_cast<size_t>(smem_bytes)),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return kernel;
}

}  // namespace flashinfer::cuda
