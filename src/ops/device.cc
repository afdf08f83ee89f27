// SPDX-License-Identifier: Apache-2.0
// CUDA devices as an engine needs them, over the driver.
#include "flashinfer/device.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "core/check.h"
#include "core/env.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/memory.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "flashinfer/pack.h"

namespace flashinfer {
namespace {

/// From the first element of a view to the last, of strides that are 0 or more.
size_t SpanBytes(const TensorView& t) {
  if (t.num_elements() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < t.rank(); ++i) last += (t.shape(i) - 1) * t.stride(i);
  return static_cast<size_t>((last + 1) * SizeBytes(t.dtype()));
}

/// So that copies begin where their numbers may.
size_t AlignedSpan(const TensorView& t) { return (SpanBytes(t) + 15) / 16 * 16 + 16; }

}  // namespace

int32_t NumCudaDevices() { return cuda::NumDevices(); }

Device DefaultDevice() {
  if (GetEnv().backend.starts_with("cpu") || NumCudaDevices() == 0) return {};
  // Packs first: whoever has them need not wait for the compiler to be opened.
  if (FindPacks().empty() && FindCompiler().name.empty()) return {};
  return {DeviceType::kCuda, 0};
}

Device ParseDevice(std::string_view text) {
  if (text == "auto") return DefaultDevice();
  if (text == "cpu") return {};
  constexpr std::string_view kCuda = "cuda:";
  Device device{DeviceType::kCuda, 0};
  const char* end = text.data() + text.size();
  if (text.starts_with(kCuda)) {
    const auto [at, error] = std::from_chars(text.data() + kCuda.size(), end, device.index);
    if (error == std::errc() && at == end) {
      cuda::Properties(device);  // throws when it is not there
      return device;
    }
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("device: is '{}', accepted: auto, cpu, cuda:N", text));
}

int32_t ArchOf(Device device) { return cuda::ArchOf(device); }

void Copy(const TensorView& from, const TensorView& to, Stream stream) {
  CheckTensor("from", from).Contiguous();
  CheckTensor("to", to).Is(from.dtype()).Shape(from.shape()).Contiguous();
  const auto bytes = static_cast<size_t>(from.num_elements() * SizeBytes(from.dtype()));
  if (bytes == 0) return;
  const bool is_from_host = from.device().type == DeviceType::kCpu;
  const bool is_to_host = to.device().type == DeviceType::kCpu;
  if (is_from_host && is_to_host) {
    std::memmove(to.data(), from.data(), bytes);
  } else if (is_from_host) {
    cuda::CopyToDevice(to.data(), from.data(), bytes, cuda::StreamOn(to.device(), stream));
  } else if (is_to_host) {
    cuda::CopyToHost(to.data(), from.data(), bytes, cuda::StreamOn(from.device(), stream));
  } else {
    cuda::CopyOnDevice(to.data(), from.data(), bytes, cuda::StreamOn(to.device(), stream));
  }
}

struct HostCopies::Impl {
  Impl() = default;
  ~Impl() { Release(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Release() {
    if (block != nullptr) cuda::DeallocatePinned(block, device);
    block = nullptr;
  }
  void Reserve(size_t bytes, Device on) {
    if (bytes <= capacity && device == on) return;
    Release();
    capacity = 0;
    const size_t wanted = std::bit_ceil(std::max<size_t>(bytes, 16384));
    block = static_cast<char*>(cuda::AllocatePinned(wanted, on));
    device = on;
    capacity = wanted;
  }

  char* block = nullptr;
  size_t capacity = 0;
  Device device;
};

HostCopies::HostCopies() : impl_(std::make_unique<Impl>()) {}
HostCopies::HostCopies(HostCopies&&) noexcept = default;
HostCopies& HostCopies::operator=(HostCopies&&) noexcept = default;
HostCopies::~HostCopies() = default;

void HostCopies::Fetch(std::span<TensorView* const> tables, Stream stream) {
  const auto is_fetched = [](const TensorView& t) {
    return t.defined() && t.device().type == DeviceType::kCuda;
  };
  size_t total = 0;
  for (const TensorView* t : tables) {
    if (!is_fetched(*t)) continue;
    CheckTensor("a table", *t).On(stream.device);
    total += AlignedSpan(*t);
  }
  if (total == 0) return;
  impl_->Reserve(total, stream.device);
  size_t at = 0;
  for (TensorView* t : tables) {
    if (!is_fetched(*t)) continue;
    char* copy = impl_->block + at;
    if (t->num_elements() > 0) cuda::CopyToPinned(copy, t->data(), SpanBytes(*t), stream);
    at += AlignedSpan(*t);
    *t = {static_cast<void*>(copy), t->dtype(), t->shape(), t->strides()};
  }
  cuda::Synchronize(stream);
}

void Synchronize(Stream stream) {
  if (stream.device.type == DeviceType::kCuda) cuda::Synchronize(stream);
}

struct OwnedStream::Impl {
  explicit Impl(Device device) : stream(cuda::CreateStream(device)) {}
  ~Impl() { cuda::DestroyStream(stream); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Stream stream;
};

OwnedStream::OwnedStream(Device device) : impl_(std::make_unique<Impl>(device)) {}
OwnedStream::OwnedStream(OwnedStream&&) noexcept = default;
OwnedStream& OwnedStream::operator=(OwnedStream&&) noexcept = default;
OwnedStream::~OwnedStream() = default;
Stream OwnedStream::stream() const { return impl_->stream; }

struct RecordedWork::Impl {
  ~Impl() {
    if (graph != nullptr) cuda::DestroyGraph(graph);
  }
  Device device;
  cuda::GraphExecHandle graph = nullptr;
};

RecordedWork::RecordedWork(Stream stream, const std::function<void()>& work)
    : impl_(std::make_unique<Impl>()) {
  FLASHINFER_CHECK(stream.device.type == DeviceType::kCuda && stream.handle != nullptr,
                   "stream: is the default one of {}, expected an OwnedStream of a CUDA device",
                   Name(stream.device));
  impl_->device = stream.device;
  impl_->graph = cuda::RecordGraph(stream, work);
}

RecordedWork::RecordedWork(RecordedWork&&) noexcept = default;
RecordedWork& RecordedWork::operator=(RecordedWork&&) noexcept = default;
RecordedWork::~RecordedWork() = default;

void RecordedWork::Launch(Stream stream) const {
  cuda::LaunchGraph(impl_->graph, cuda::StreamOn(impl_->device, stream));
}

}  // namespace flashinfer
