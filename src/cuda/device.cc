// SPDX-License-Identifier: Apache-2.0
// Reads the attributes of CUDA devices.
#include "cuda/device.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "core/check.h"
#include "core/env.h"

namespace flashinfer::cuda {
namespace {

int32_t Attribute(const Driver& driver, DeviceHandle handle, DeviceAttribute attribute) {
  int value = 0;
  Check(driver.cuDeviceGetAttribute(&value, attribute, handle), "cuDeviceGetAttribute");
  return value;
}

/// With opt-in (CUDA C++ Programming Guide, compute capabilities).
int32_t SmemPerBlockOf(int32_t arch) {
  if (arch < 80) return 64 << 10;
  if (arch == 86 || arch == 89 || arch >= 120) return 99 << 10;
  return (arch < 90 ? 163 : 227) << 10;
}

DeviceProperties Read(int32_t index) {
  const Driver& driver = GetDriver();
  DeviceProperties p{};
  Check(driver.cuDeviceGet(&p.handle, index), "cuDeviceGet");
  Check(driver.cuDevicePrimaryCtxRetain(&p.context, p.handle), "cuDevicePrimaryCtxRetain");
  std::array<char, 256> name{};
  Check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), p.handle),
        "cuDeviceGetName");
  p.name = name.data();
  const auto read = [&](DeviceAttribute a) { return Attribute(driver, p.handle, a); };
  p.code_arch = read(DeviceAttribute::kMajor) * 10 + read(DeviceAttribute::kMinor);
  const int32_t newest = GetEnv().cuda_arch;
  p.arch = newest > 0 ? std::min(p.code_arch, newest) : p.code_arch;
  p.num_sms = read(DeviceAttribute::kNumSms);
  p.smem_per_block_bytes = read(DeviceAttribute::kSmemPerBlock);
  if (p.arch != p.code_arch) {
    p.smem_per_block_bytes = std::min(p.smem_per_block_bytes, SmemPerBlockOf(p.arch));
  }
  p.smem_per_sm_bytes = read(DeviceAttribute::kSmemPerSm);
  p.max_threads_per_sm = read(DeviceAttribute::kMaxThreadsPerSm);
  p.max_blocks_per_sm = read(DeviceAttribute::kMaxBlocksPerSm);
  p.l2_bytes = read(DeviceAttribute::kL2Bytes);
  Check(driver.cuDeviceTotalMem_v2(&p.memory_bytes, p.handle), "cuDeviceTotalMem_v2");
  return p;
}

/// A device is read at its first use: retaining the primary context of all would take memory on
/// devices that the process never touches.
struct Slot {
  std::once_flag once;
  DeviceProperties properties;
};

std::vector<Slot>& Slots() {
  static std::vector<Slot>& slots = *new std::vector<Slot>(static_cast<size_t>(NumDevices()));
  return slots;
}

}  // namespace

int32_t NumDevices() {
  const Driver* driver = FindDriver();
  int count = 0;
  if (driver != nullptr) Check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

const DeviceProperties& Properties(Device device) {
  GetDriver();
  std::vector<Slot>& slots = Slots();
  FLASHINFER_CHECK(device.type == DeviceType::kCuda && device.index >= 0 &&
                       static_cast<size_t>(device.index) < slots.size(),
                   "device: is {}, CUDA devices here: 0 to {}", Name(device), slots.size() - 1);
  Slot& slot = slots[static_cast<size_t>(device.index)];
  std::call_once(slot.once, [&] { slot.properties = Read(device.index); });
  return slot.properties;
}

Stream StreamOn(Device device, Stream stream) {
  if (stream.handle == nullptr) return {device};
  FLASHINFER_CHECK(stream.device == device, "stream: is of {}, the tensors are on {}",
                   Name(stream.device), Name(device));
  return stream;
}

bool Available(std::string* why) { return FindDriver(why) != nullptr; }

CurrentDevice::CurrentDevice(const DeviceProperties& device) {
  const Driver& driver = GetDriver();
  Context context = nullptr;
  DeviceHandle current = -1;
  if (driver.cuCtxGetCurrent(&context) == kSuccess && context == device.context) return;
  // Asked only when there is a context: without one it is an error, which checking tools report.
  if (context != nullptr && driver.cuCtxGetDevice(&current) == kSuccess &&
      current == device.handle) {
    return;
  }
  Check(driver.cuCtxPushCurrent_v2(device.context), "cuCtxPushCurrent_v2");
  is_pushed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (!is_pushed_) return;
  Context popped = nullptr;
  GetDriver().cuCtxPopCurrent_v2(&popped);
}

}  // namespace flashinfer::cuda
