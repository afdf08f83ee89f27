// SPDX-License-Identifier: Apache-2.0
// CUDA devices as an engine needs them, over the driver.
#include "flashinfer/device.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>
#include <vector>

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

namespace {

bool IsFetched(const TensorView& t) { return t.defined() && t.device().type == DeviceType::kCuda; }

}  // namespace

struct HostCopies::Impl {
  /// A table's bytes, and where in `block` their copy is.
  struct Copied {
    const void* from;
    size_t bytes;
    size_t at;
    bool operator==(const Copied&) const = default;
  };

  Impl() = default;
  ~Impl() { Release(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Release() {
    if (block != nullptr) cuda::DeallocatePinned(block, stream.device);  // waits for its copies
    block = nullptr;
    capacity = 0;
  }
  void Reserve(size_t bytes, Stream on) {
    const bool is_busy = is_begun && stream.handle != on.handle;
    if (bytes <= capacity && stream.device == on.device && !is_busy) return;
    Release();
    const size_t wanted = std::bit_ceil(std::max<size_t>(bytes, 16384));
    block = static_cast<char*>(cuda::AllocatePinned(wanted, on.device));
    capacity = wanted;
  }
  /// What tables on the device become, in their order; the bytes of all.
  size_t LayOut(std::span<TensorView* const> tables, Stream on) {
    size_t total = 0;
    wanted.clear();
    for (const TensorView* t : tables) {
      if (!IsFetched(*t)) continue;
      CheckTensor("a table", *t).On(on.device);
      wanted.push_back({t->data(), SpanBytes(*t), total});
      total += AlignedSpan(*t);
    }
    return total;
  }
  void Copy(size_t total, Stream on) {
    Reserve(total, on);
    stream = on;
    is_begun = false;
    for (const Copied& c : wanted) {
      if (c.bytes > 0) cuda::CopyToPinned(block + c.at, c.from, c.bytes, on);
    }
  }

  char* block = nullptr;
  size_t capacity = 0;
  Stream stream;  // of the last copies
  std::vector<Copied> wanted;
  std::vector<Copied> begun;
  bool is_begun = false;  // and not waited for
};

HostCopies::HostCopies() : impl_(std::make_unique<Impl>()) {}
HostCopies::HostCopies(HostCopies&&) noexcept = default;
HostCopies& HostCopies::operator=(HostCopies&&) noexcept = default;
HostCopies::~HostCopies() = default;

void HostCopies::Begin(std::span<TensorView* const> tables, Stream stream) {
  const size_t total = impl_->LayOut(tables, stream);
  if (total == 0) return;
  impl_->Copy(total, stream);
  impl_->begun.swap(impl_->wanted);
  impl_->is_begun = true;
}

void HostCopies::Fetch(std::span<TensorView* const> tables, Stream stream) {
  const size_t total = impl_->LayOut(tables, stream);
  if (total == 0) return;
  const bool is_begun = impl_->is_begun && impl_->begun == impl_->wanted &&
                        impl_->stream.device == stream.device &&
                        impl_->stream.handle == stream.handle;
  if (!is_begun) impl_->Copy(total, stream);
  auto copied = impl_->wanted.cbegin();
  for (TensorView* t : tables) {
    if (!IsFetched(*t)) continue;
    *t = {static_cast<void*>(impl_->block + copied->at), t->dtype(), t->shape(), t->strides()};
    ++copied;
  }
  cuda::Synchronize(stream);
  impl_->is_begun = false;
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
