// SPDX-License-Identifier: Apache-2.0
// Recorded work between events of the CUDA driver, which only benchmarks need.
#include "gpu_timer.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "backends/cuda/norm.h"
#include "core/check.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/memory.h"
#include "flashinfer/device.h"

namespace flashinfer::bench {
namespace {

// Handles of the driver that only benchmarks use.
using Event = void*;

/// More than the L2 cache of any device, in rows that a norm reads.
constexpr int64_t kFlushColumns = 8192;
constexpr size_t kFlushBytes = size_t{256} << 20;

/// Entry points of libcuda beside those that the library uses, by their names there.
struct TimerDriver {
  int (*cuEventCreate)(Event*, unsigned flags);
  int (*cuEventDestroy_v2)(Event);
  int (*cuEventRecord)(Event, void* stream);
  int (*cuEventElapsedTime)(float* ms, Event, Event);
};

const TimerDriver& GetTimerDriver() {
  static const TimerDriver driver = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    FLASHINFER_CHECK(library != nullptr, "libcuda.so.1: {}", dlerror());
    TimerDriver d{};
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      FLASHINFER_CHECK(function != nullptr, "libcuda.so.1 has no {}", name);
    };
    find(d.cuEventCreate, "cuEventCreate");
    find(d.cuEventDestroy_v2, "cuEventDestroy_v2");
    find(d.cuEventRecord, "cuEventRecord");
    find(d.cuEventElapsedTime, "cuEventElapsedTime");
    return d;
  }();
  return driver;
}

void Check(int result, const char* call) { cuda::Check(result, call); }

/// Fills the L2 cache with clean lines: reads `block` and writes one row, again and again. What the
/// timed work finds in the cache it need not write back.
void ReadThrough(void* block, Stream stream) {
  constexpr int64_t kRowBytes = 2 * kFlushColumns;
  constexpr int64_t kNumRows = static_cast<int64_t>(kFlushBytes) / kRowBytes - 1;
  void* row = static_cast<char*>(block) + kNumRows * kRowBytes;
  cuda::RunNorm({.x = {block, kFlushColumns, 0},
                 .residual = {},
                 .out = {row, 0, 0},
                 .weight = row,
                 .bias = nullptr,
                 .num_outer = kNumRows,
                 .num_inner = 1,
                 .hidden_size = kFlushColumns,
                 .eps = 1,
                 .out_scale = 1,
                 .out_scale_data = nullptr,
                 .kind = NormKind::kRms,
                 .dtype = DType::kBF16,
                 .dtype_weight = DType::kBF16,
                 .dtype_out = DType::kBF16,
                 .stream = stream});
}

}  // namespace

struct GpuTimer::Impl {
  explicit Impl(Device d) : device(d), current(cuda::Properties(d)), stream(d) {}
  Device device;
  cuda::CurrentDevice current;
  OwnedStream stream;
  Event begin = nullptr;
  Event end = nullptr;
  void* flushed = nullptr;
};

GpuTimer::GpuTimer(Device device) : impl_(std::make_unique<Impl>(device)) {
  const TimerDriver& d = GetTimerDriver();
  Check(d.cuEventCreate(&impl_->begin, 0), "cuEventCreate");
  Check(d.cuEventCreate(&impl_->end, 0), "cuEventCreate");
  impl_->flushed = cuda::Allocate(nullptr, kFlushBytes, device);
  FLASHINFER_CHECK(impl_->flushed != nullptr, "no device memory to flush the L2 cache with");
  cuda::FillBytes(impl_->flushed, 0, kFlushBytes, stream());
}

GpuTimer::~GpuTimer() {
  const TimerDriver& d = GetTimerDriver();
  cuda::Deallocate(nullptr, impl_->flushed, kFlushBytes, impl_->device);
  d.cuEventDestroy_v2(impl_->begin);
  d.cuEventDestroy_v2(impl_->end);
}

Stream GpuTimer::stream() const { return impl_->stream.stream(); }

double GpuTimer::MedianUs(const std::function<void(Stream)>& run, int num_samples) {
  const TimerDriver& d = GetTimerDriver();
  const Stream stream = this->stream();
  run(stream);
  cuda::Synchronize(stream);
  const RecordedWork work(stream, [&] { run(stream); });
  std::vector<double> samples;
  for (int i = 0; i < num_samples + 3; ++i) {
    ReadThrough(impl_->flushed, stream);
    Check(d.cuEventRecord(impl_->begin, stream.handle), "cuEventRecord");
    work.Launch(stream);
    Check(d.cuEventRecord(impl_->end, stream.handle), "cuEventRecord");
    cuda::Synchronize(stream);
    float ms = 0;
    Check(d.cuEventElapsedTime(&ms, impl_->begin, impl_->end), "cuEventElapsedTime");
    if (i >= 3) samples.push_back(1e3 * static_cast<double>(ms));
  }
  std::nth_element(samples.begin(), samples.begin() + num_samples / 2, samples.end());
  return samples[static_cast<size_t>(num_samples / 2)];
}

}  // namespace flashinfer::bench
