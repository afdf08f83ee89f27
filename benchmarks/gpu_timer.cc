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
#include "flashinfer/activation.h"
#include "flashinfer/device.h"
#include "flashinfer/sampling.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

// Handles of the driver that only benchmarks use.
using Event = void*;

/// Rows that a norm reads to flush the L2 cache: five times as large, or 256 MB.
constexpr int64_t kFlushColumns = 8192;
constexpr int64_t kMostFlushBytes = int64_t{256} << 20;

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
void ReadThrough(void* block, size_t bytes, Stream stream) {
  constexpr int64_t kRowBytes = 2 * kFlushColumns;
  const int64_t num_rows = static_cast<int64_t>(bytes) / kRowBytes - 1;
  void* row = static_cast<char*>(block) + num_rows * kRowBytes;
  cuda::RunNorm({.x = {block, kFlushColumns, 0},
                 .residual = {},
                 .out = {row, 0, 0},
                 .weight = row,
                 .bias = nullptr,
                 .num_outer = num_rows,
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
  explicit Impl(Device d)
      : device(d),
        current(cuda::Properties(d)),
        stream(d),
        flush_bytes(
            static_cast<size_t>(std::min(5 * cuda::Properties(d).l2_bytes, kMostFlushBytes))) {}
  void Flush() const { ReadThrough(flushed, flush_bytes, stream.stream()); }
  /// µs of what `enqueue` enqueues.
  double Time(const std::function<void()>& enqueue) const;

  Device device;
  cuda::CurrentDevice current;
  OwnedStream stream;
  Event begin = nullptr;
  Event end = nullptr;
  void* flushed = nullptr;
  size_t flush_bytes;
  double memory_gb_per_s = 0;
};

double GpuTimer::Impl::Time(const std::function<void()>& enqueue) const {
  const TimerDriver& d = GetTimerDriver();
  void* const handle = stream.stream().handle;
  Check(d.cuEventRecord(begin, handle), "cuEventRecord");
  enqueue();
  Check(d.cuEventRecord(end, handle), "cuEventRecord");
  cuda::Synchronize(stream.stream());
  float ms = 0;
  Check(d.cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
  return 1e3 * static_cast<double>(ms);
}

GpuTimer::GpuTimer(Device device) : impl_(std::make_unique<Impl>(device)) {
  const TimerDriver& d = GetTimerDriver();
  Check(d.cuEventCreate(&impl_->begin, 0), "cuEventCreate");
  Check(d.cuEventCreate(&impl_->end, 0), "cuEventCreate");
  impl_->flushed = cuda::Allocate(nullptr, impl_->flush_bytes, device);
  FLASHINFER_CHECK(impl_->flushed != nullptr, "no device memory to flush the L2 cache with");
  cuda::FillBytes(impl_->flushed, 0, impl_->flush_bytes, stream());
}

GpuTimer::~GpuTimer() {
  const TimerDriver& d = GetTimerDriver();
  cuda::Deallocate(nullptr, impl_->flushed, impl_->flush_bytes, impl_->device);
  d.cuEventDestroy_v2(impl_->begin);
  d.cuEventDestroy_v2(impl_->end);
}

Stream GpuTimer::stream() const { return impl_->stream.stream(); }

double GpuTimer::MedianUs(const std::function<void(Stream)>& run, int num_samples) {
  const Stream stream = this->stream();
  run(stream);
  cuda::Synchronize(stream);
  const RecordedWork work(stream, [&] { run(stream); });
  std::vector<double> samples;
  for (int i = 0; i < num_samples + 3; ++i) {
    impl_->Flush();
    const double us = impl_->Time([&] { work.Launch(stream); });
    if (i >= 3) samples.push_back(us);
  }
  std::nth_element(samples.begin(), samples.begin() + num_samples / 2, samples.end());
  return samples[static_cast<size_t>(num_samples / 2)];
}

double GpuTimer::MemoryGbPerS() {
  if (impl_->memory_gb_per_s > 0) return impl_->memory_gb_per_s;
  constexpr int kSamples = 5;
  constexpr int64_t kColumns = 8192;
  // 1 GB of an H200: a launch and its ends are below 3 % of the time.
  const int64_t num_rows = 16 * cuda::Properties(impl_->device).l2_bytes / (4 * kColumns);
  const GpuTensor x({num_rows, 2 * kColumns}, impl_->device);
  const GpuTensor out({num_rows, kColumns}, impl_->device);
  const auto measure = [&](int64_t bytes, const std::function<void(Stream)>& run) {
    impl_->memory_gb_per_s = std::max(impl_->memory_gb_per_s,
                                      static_cast<double>(bytes) / MedianUs(run, kSamples) * 1e-3);
  };
  measure(6 * num_rows * kColumns, [&](Stream stream) { SiluAndMul(x, out, {}, stream); });
  // The same bytes as long rows of f32, which are only read.
  const int64_t num_long_rows = num_rows / 16;
  const TensorView logits(x.view().data(), DType::kF32, {num_long_rows, 16 * kColumns},
                          impl_->device);
  const GpuTensor tokens(std::vector<int32_t>(static_cast<size_t>(num_long_rows)), impl_->device);
  measure(4 * num_long_rows * 16 * kColumns,
          [&](Stream stream) { ArgMax(logits, tokens, {}, {}, stream); });
  return impl_->memory_gb_per_s;
}

}  // namespace flashinfer::bench
