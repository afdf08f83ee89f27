// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of the software device: one device, whose work is done when it is asked for.
//
// FLASHINFER_SOFTWARE_ARCH is its compute capability, 80 without it.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "software_device/image_file.h"
#include "software_device/scheduler.h"

namespace flashinfer::software_device {
namespace {

using cuda::DeviceAttribute;
using cuda::DeviceHandle;
using cuda::DevicePointer;
using cuda::LaunchAttribute;
using cuda::LaunchConfig;
using cuda::Result;

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kNoBinaryForGpu = 209;
constexpr Result kLaunchFailed = 719;
constexpr Result kNotSupported = 801;

constexpr size_t kMemoryBytes = size_t{4} << 30;
// Few: batches then take more than one wave, and plans more than one piece.
constexpr int kNumSms = 6;

struct Stream {
  std::vector<std::function<Result()>>* recorded = nullptr;  ///< while it is captured
};
struct Graph {
  std::vector<std::function<Result()>> work;
};
struct Kernel {
  void* library = nullptr;
  const Image* image = nullptr;
  int max_smem_bytes = 48 * 1024;
};
struct Block {
  void* mapping;
  size_t mapping_bytes;
};

struct State {
  std::mutex mutex;
  std::map<DevicePointer, Block> blocks;
};

State& TheState() {
  static State& state = *new State;
  return state;
}

int Arch() {
  static const int arch = [] {
    const char* given = std::getenv("FLASHINFER_SOFTWARE_ARCH");
    return given == nullptr ? 80 : std::atoi(given);
  }();
  return arch;
}

/// Shared memory of a block, as on devices of the architecture.
int SmemPerBlock() {
  if (Arch() >= 90 && Arch() < 120) return 227 * 1024;
  if (Arch() == 80 || Arch() == 87) return 163 * 1024;
  return Arch() >= 86 ? 99 * 1024 : 64 * 1024;
}

Stream& StreamOf(cuda::StreamHandle handle) {
  static Stream& default_stream = *new Stream;
  return handle == nullptr ? default_stream : *reinterpret_cast<Stream*>(handle);
}

/// Now, or when the graph is launched into which the stream is captured.
Result Enqueue(cuda::StreamHandle handle, std::function<Result()> work) {
  Stream& stream = StreamOf(handle);
  if (stream.recorded == nullptr) return work();
  stream.recorded->push_back(std::move(work));
  return kSuccess;
}

Result CopyBytes(void* to, const void* from, size_t bytes, cuda::StreamHandle stream) {
  return Enqueue(stream, [=] {
    std::memmove(to, from, bytes);
    return kSuccess;
  });
}

// Addresses of the device are numbers in the driver's interface.
void* At(DevicePointer pointer) {
  return reinterpret_cast<void*>(pointer);  // NOLINT(performance-no-int-to-ptr)
}

/// Parameters as large as a launch takes them, aligned for any.
struct alignas(64) Params {
  char bytes[4096];
};

Result LaunchNow(const Kernel& kernel, const Launch& launch, Params params) {
  void* pointers[] = {&params};
  std::string why;
  if (Run(launch, kernel.image->run_thread, pointers, why)) return kSuccess;
  std::fprintf(stderr, "software device: %s\n", why.c_str());
  return kLaunchFailed;
}

Result CheckedLaunch(const LaunchConfig& config, const Kernel& kernel, void** params) {
  Launch launch{.grid_dim = {config.grid_x, config.grid_y, config.grid_z},
                .block_dim = {config.block_x, config.block_y, config.block_z},
                .cluster_size = 1,
                .smem_bytes = config.smem_bytes};
  for (unsigned i = 0; i < config.num_attributes; ++i) {
    const LaunchAttribute& a = config.attributes[i];
    if (a.id == LaunchAttribute::kClusterSize) launch.cluster_size = a.value.cluster.x;
  }
  const bool is_valid = config.block_x * config.block_y * config.block_z <= 1024 &&
                        config.grid_x % launch.cluster_size == 0 &&
                        static_cast<int>(config.smem_bytes) <= kernel.max_smem_bytes &&
                        (launch.cluster_size == 1 || Arch() >= 90);
  if (!is_valid) return kInvalidValue;
  Params copy;
  std::memcpy(copy.bytes, params[0], kernel.image->param_bytes);
  return Enqueue(config.stream, [kernel, launch, copy] { return LaunchNow(kernel, launch, copy); });
}

}  // namespace
}  // namespace flashinfer::software_device

// NOLINTBEGIN(readability-identifier-naming, readability-function-size)
#define ENTRY extern "C" __attribute__((visibility("default")))
using namespace flashinfer::software_device;  // NOLINT(google-build-using-namespace)
namespace cuda = flashinfer::cuda;
using cuda::Context;
using cuda::FunctionHandle;
using cuda::GraphExecHandle;
using cuda::GraphHandle;
using cuda::KernelHandle;
using cuda::Library;
using cuda::StreamHandle;

// --- The device ---

ENTRY Result cuInit(unsigned) { return kSuccess; }
ENTRY Result cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
ENTRY Result cuGetErrorName(Result result, const char** name) {
  static const std::map<Result, const char*>& names =
      *new std::map<Result, const char*>{{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                         {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                         {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                         {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
                                         {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"}};
  const auto found = names.find(result);
  if (found == names.end()) return kInvalidValue;
  return *name = found->second, kSuccess;
}
ENTRY Result cuGetErrorString(Result, const char** text) {
  return *text = "of the software device", kSuccess;
}
ENTRY Result cuDeviceGetCount(int* count) { return *count = 1, kSuccess; }
ENTRY Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kSuccess : kInvalidValue;
}
ENTRY Result cuDeviceGetName(char* name, int size, DeviceHandle) {
  std::snprintf(name, static_cast<size_t>(size), "software device SM%d", Arch());
  return kSuccess;
}
ENTRY Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle) {
  switch (attribute) {
    case DeviceAttribute::kNumSms:
      return *value = kNumSms, kSuccess;
    case DeviceAttribute::kL2Bytes:
      return *value = 1 << 18, kSuccess;
    case DeviceAttribute::kMaxThreadsPerSm:
      return *value = Arch() == 75 ? 1024 : 1536, kSuccess;
    case DeviceAttribute::kMajor:
      return *value = Arch() / 10, kSuccess;
    case DeviceAttribute::kMinor:
      return *value = Arch() % 10, kSuccess;
    case DeviceAttribute::kSmemPerSm:
      return *value = SmemPerBlock() + 1024, kSuccess;
    case DeviceAttribute::kSmemPerBlock:
      return *value = SmemPerBlock(), kSuccess;
    case DeviceAttribute::kMaxBlocksPerSm:
      return *value = 16, kSuccess;
  }
  return kInvalidValue;
}
ENTRY Result cuDeviceTotalMem_v2(size_t* bytes, DeviceHandle) {
  return *bytes = kMemoryBytes, kSuccess;
}
namespace {
// There is one context. Nothing with a destructor: calls still come while the process ends.
thread_local int num_pushed = 0;
char primary_context;
}  // namespace
ENTRY Result cuDevicePrimaryCtxRetain(Context* context, DeviceHandle) {
  return *context = reinterpret_cast<Context>(&primary_context), kSuccess;
}
ENTRY Result cuCtxGetCurrent(Context* context) {
  *context = num_pushed == 0 ? nullptr : reinterpret_cast<Context>(&primary_context);
  return kSuccess;
}
ENTRY Result cuCtxGetDevice(DeviceHandle* device) { return *device = 0, kSuccess; }
ENTRY Result cuCtxPushCurrent_v2(Context) { return ++num_pushed, kSuccess; }
ENTRY Result cuCtxPopCurrent_v2(Context* context) {
  cuCtxGetCurrent(context);
  if (num_pushed == 0) return kInvalidValue;
  return --num_pushed, kSuccess;
}

// --- Memory: NaN at first, and a page behind each block that faults ---

ENTRY Result cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  if (bytes > kMemoryBytes) return kOutOfMemory;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t taken = (bytes + 255) / 256 * 256;
  const size_t mapped = (taken + page - 1) / page * page + page;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return kOutOfMemory;
  char* end = static_cast<char*>(mapping) + mapped - page;
  mprotect(end, page, PROT_NONE);
  // Large blocks are those of tests with sparse data: filling would take them for real.
  if (bytes <= size_t{256} << 20) std::memset(end - taken, 0xff, taken);
  *pointer = reinterpret_cast<DevicePointer>(end - taken);
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.blocks[*pointer] = {mapping, mapped};
  return kSuccess;
}
ENTRY Result cuMemFree_v2(DevicePointer pointer) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto found = state.blocks.find(pointer);
  if (found == state.blocks.end()) return kInvalidValue;
  munmap(found->second.mapping, found->second.mapping_bytes);
  state.blocks.erase(found);
  return kSuccess;
}
// Behind page-locked memory, too, lies a page that faults.
ENTRY Result cuMemAllocHost_v2(void** pointer, size_t bytes) {
  DevicePointer block = 0;
  const Result result = cuMemAlloc_v2(&block, bytes);
  *pointer = At(block);
  return result;
}
ENTRY Result cuMemFreeHost(void* pointer) {
  return cuMemFree_v2(reinterpret_cast<DevicePointer>(pointer));
}
ENTRY Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle s) {
  return CopyBytes(At(to), At(from), bytes, s);
}
ENTRY Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes,
                                  StreamHandle s) {
  return CopyBytes(At(to), from, bytes, s);
}
ENTRY Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, StreamHandle s) {
  return CopyBytes(to, At(from), bytes, s);
}
ENTRY Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, StreamHandle s) {
  return Enqueue(s, [=] {
    std::memset(At(to), value, bytes);
    return kSuccess;
  });
}

// --- Streams and graphs ---

ENTRY Result cuStreamCreate(StreamHandle* stream, unsigned) {
  return *stream = reinterpret_cast<StreamHandle>(new Stream), kSuccess;
}
ENTRY Result cuStreamDestroy_v2(StreamHandle stream) {
  delete reinterpret_cast<Stream*>(stream);
  return kSuccess;
}
ENTRY Result cuStreamSynchronize(StreamHandle stream) {
  return StreamOf(stream).recorded == nullptr ? kSuccess : kInvalidValue;
}
// Events, which benchmarks look up themselves: work is done when it was enqueued.
ENTRY Result cuEventCreate(void** event, unsigned) {
  return *event = new std::chrono::steady_clock::time_point, kSuccess;
}
ENTRY Result cuEventDestroy_v2(void* event) {
  delete static_cast<std::chrono::steady_clock::time_point*>(event);
  return kSuccess;
}
ENTRY Result cuEventRecord(void* event, StreamHandle) {
  *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now();
  return kSuccess;
}
ENTRY Result cuEventElapsedTime(float* ms, void* begin, void* end) {
  using Point = std::chrono::steady_clock::time_point;
  *ms = std::chrono::duration<float, std::milli>(*static_cast<Point*>(end) -
                                                 *static_cast<Point*>(begin))
            .count();
  return kSuccess;
}
ENTRY Result cuStreamBeginCapture_v2(StreamHandle stream, int) {
  if (stream == nullptr || StreamOf(stream).recorded != nullptr) return kInvalidValue;
  StreamOf(stream).recorded = new std::vector<std::function<Result()>>;
  return kSuccess;
}
ENTRY Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  auto*& recorded = StreamOf(stream).recorded;
  if (recorded == nullptr) return kInvalidValue;
  *graph = reinterpret_cast<GraphHandle>(new Graph{std::move(*recorded)});
  delete recorded;
  recorded = nullptr;
  return kSuccess;
}
ENTRY Result cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph,
                                         unsigned long long) {
  *exec = reinterpret_cast<GraphExecHandle>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return kSuccess;
}
ENTRY Result cuGraphLaunch(GraphExecHandle exec, StreamHandle) {
  for (const auto& work : reinterpret_cast<Graph*>(exec)->work) {
    if (const Result result = work(); result != kSuccess) return result;
  }
  return kSuccess;
}
ENTRY Result cuGraphDestroy(GraphHandle graph) {
  delete reinterpret_cast<Graph*>(graph);
  return kSuccess;
}
ENTRY Result cuGraphExecDestroy(GraphExecHandle exec) {
  delete reinterpret_cast<Graph*>(exec);
  return kSuccess;
}

// --- Kernels ---

ENTRY Result cuLibraryLoadData(Library* library, const void* code, int*, void**, unsigned, int*,
                               void**, unsigned) {
  const ImageHeader* header = ImageHeaderOf(code);
  if (header == nullptr || header->arch != Arch()) return kNoBinaryForGpu;
  void* handle = OpenImage(*header);
  if (handle == nullptr) return kInvalidValue;
  const auto* image = static_cast<const Image*>(dlsym(handle, "flashinfer_image"));
  if (image == nullptr) return kInvalidValue;
  image->bind(&DeviceServices());
  *library = reinterpret_cast<Library>(new Kernel{.library = handle, .image = image});
  return kSuccess;
}
ENTRY Result cuLibraryUnload(Library library) {
  auto* kernel = reinterpret_cast<Kernel*>(library);
  dlclose(kernel->library);
  delete kernel;
  return kSuccess;
}
ENTRY Result cuLibraryGetKernel(KernelHandle* kernel, Library library, const char*) {
  return *kernel = reinterpret_cast<KernelHandle>(library), kSuccess;
}
ENTRY Result cuKernelGetFunction(FunctionHandle* function, KernelHandle kernel) {
  return *function = reinterpret_cast<FunctionHandle>(kernel), kSuccess;
}
ENTRY Result cuKernelGetAttribute(int* value, cuda::FunctionAttribute attribute, KernelHandle,
                                  DeviceHandle) {
  *value = attribute == cuda::FunctionAttribute::kNumRegisters ? 64 : 0;
  return kSuccess;
}
ENTRY Result cuKernelSetAttribute(cuda::FunctionAttribute attribute, int value, KernelHandle kernel,
                                  DeviceHandle) {
  if (attribute == cuda::FunctionAttribute::kMaxDynamicSmemBytes) {
    if (value > SmemPerBlock()) return kInvalidValue;
    reinterpret_cast<Kernel*>(kernel)->max_smem_bytes = value;
  }
  return kSuccess;
}
ENTRY Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, FunctionHandle,
                                                         int block_size, size_t smem_bytes) {
  const int by_threads = 1024 / block_size;
  const auto by_smem = static_cast<int>(static_cast<size_t>(SmemPerBlock()) / (smem_bytes + 1024));
  *num_blocks = std::max(1, std::min({by_threads, by_smem, 16}));
  return kSuccess;
}
ENTRY Result cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** params,
                              void**) {
  return CheckedLaunch(*config, *reinterpret_cast<Kernel*>(function), params);
}
ENTRY Result cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                    const uint32_t*, const uint32_t*, int, int, int, int) {
  return kNotSupported;
}
// NOLINTEND(readability-identifier-naming, readability-function-size)
