// SPDX-License-Identifier: Apache-2.0
// Linear layers: check, choose at packing, run.
#include "ops/linear.h"

#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {

struct PackedWeight::Impl {
  std::unique_ptr<PackedLinear> packed;
  int64_t rows = 0;
  int64_t cols = 0;
  Device device;
  std::string backend;
};

struct PackedWeightAccess {
  static const PackedWeight::Impl& Get(const PackedWeight& weight) {
    FLASHINFER_CHECK(weight.impl_ != nullptr, "weight: nothing was packed into it");
    return *weight.impl_;
  }
  /// Null when nothing was packed.
  static const void* Object(const PackedWeight& weight) { return weight.impl_.get(); }
};

namespace {

void CheckSources(std::span<const WeightView> sources) {
  FLASHINFER_CHECK(!sources.empty(), "sources: none were given, expected 1 or more");
  for (size_t i = 0; i < sources.size(); ++i) {
    const WeightView& s = sources[i];
    FLASHINFER_CHECK(s.rows > 0 && s.cols > 0, "sources[{}]: is {} x {}, expected 1 or more", i,
                     s.rows, s.cols);
    FLASHINFER_CHECK(s.data != nullptr, "sources[{}]: the data pointer is null", i);
    FLASHINFER_CHECK(s.cols == sources[0].cols, "sources[{}]: has {} columns, the first has {}", i,
                     s.cols, sources[0].cols);
    FLASHINFER_CHECK(s.cols % BlockSize(s.format) == 0,
                     "sources[{}]: {} columns of {} are not a multiple of the block of {}", i,
                     s.cols, Name(s.format), BlockSize(s.format));
  }
}

/// The sources' bytes and formats, under the object that will hold their packed form.
void LogPack(const void* object, std::span<const WeightView> sources) {
  std::vector<TensorView> bytes;
  std::vector<std::string> names;
  bytes.reserve(sources.size());
  names.reserve(2 * sources.size());
  std::vector<LogArgument> arguments{{"object", ObjectText(object)},
                                     {"num_sources", fmt::format("{}", sources.size())}};
  for (size_t i = 0; i < sources.size(); ++i) {
    const WeightView& s = sources[i];
    const int64_t row_bytes = s.cols / BlockSize(s.format) * BlockBytes(s.format);
    bytes.emplace_back(s.data, DType::kU8, Dims{s.rows, row_bytes});
    names.push_back(fmt::format("sources.{}", i));
    arguments.emplace_back(names.back(), bytes.back());
    names.push_back(fmt::format("sources.{}.format", i));
    arguments.emplace_back(names.back(), ValueText(s.format));
  }
  LogCall("pack_weight", arguments);
}

void CheckIds(const TensorView& ids, int64_t rows) {
  const int32_t* id = ids.data_as<const int32_t>();
  for (int64_t i = 0; i < ids.shape(0); ++i) {
    FLASHINFER_CHECK(id[i * ids.stride(0)] >= 0 && id[i * ids.stride(0)] < rows,
                     "ids[{}]: is {}, accepted: 0 to {}", i, id[i * ids.stride(0)], rows - 1);
  }
}

constexpr std::initializer_list<DType> kFloats{DType::kF32, DType::kF16, DType::kBF16};

}  // namespace

PackedWeight::PackedWeight() = default;
PackedWeight::PackedWeight(PackedWeight&&) noexcept = default;
PackedWeight& PackedWeight::operator=(PackedWeight&&) noexcept = default;
PackedWeight::~PackedWeight() = default;

PackedWeight::PackedWeight(const WeightView& source, const PackOptions& options)
    : PackedWeight(std::span(&source, 1), options) {}

PackedWeight::PackedWeight(std::span<const WeightView> sources, const PackOptions& options) {
  CheckSources(sources);
  auto impl = std::make_unique<Impl>();
  if (LogLevel() > 0) [[unlikely]]
    LogPack(impl.get(), sources);
  impl->cols = sources[0].cols;
  impl->device = options.device;
  const int32_t arch = cuda::ArchOf(options.device);
  // One backend holds all sources, so it must take each; the last one asked decides.
  LinearOp::Entry pack = nullptr;
  for (const WeightView& s : sources) {
    const LinearProblem problem{s.format, s.rows, s.cols, arch};
    const LinearOp::Entry entry = Choose<LinearOp>(problem, options.backend);
    FLASHINFER_CHECK(pack == nullptr || pack == entry,
                     "sources: no one backend takes all of them; pack them one by one");
    pack = entry;
    impl->rows += s.rows;
  }
  for (const auto& candidate : LinearOp::Candidates()) {
    if (candidate.entry == pack) impl->backend = candidate.name;
  }
  impl->packed = pack({sources, options});
  impl_ = std::move(impl);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("pack_weight", {});
}

int64_t PackedWeight::rows() const { return impl_ == nullptr ? 0 : impl_->rows; }
int64_t PackedWeight::cols() const { return impl_ == nullptr ? 0 : impl_->cols; }
size_t PackedWeight::size_bytes() const {
  return impl_ == nullptr ? 0 : impl_->packed->size_bytes();
}
std::string_view PackedWeight::backend() const {
  return impl_ == nullptr ? "" : std::string_view(impl_->backend);
}
Device PackedWeight::device() const { return impl_ == nullptr ? Device() : impl_->device; }

void PackedWeight::GatherRows(const TensorView& ids, const TensorView& out, Stream stream) const {
  if (LogLevel() > 0) [[unlikely]]
    LogCall("gather_rows", {{"object", ObjectText(impl_.get())}, {"ids", ids}, {"out", out}});
  const Impl& w = PackedWeightAccess::Get(*this);
  CheckTensor("ids", ids).On(w.device).Is(DType::kI32).Rank(1);
  const Dims out_shape{ids.shape(0), w.cols};
  CheckTensor("out", out).On(w.device).IsOneOf(kFloats).Shape(out_shape).LastDimDense().NoOverlap();
  if (w.device.type == DeviceType::kCpu) CheckIds(ids, w.rows);
  w.packed->GatherRows({.ids = ids.data_as<const int32_t>(),
                        .out = out.data(),
                        .num_tokens = ids.shape(0),
                        .ids_stride = ids.stride(0),
                        .out_stride = out.stride(0),
                        .dtype_out = out.dtype(),
                        .stream = cuda::StreamOn(w.device, stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("gather_rows", {{"out", out}});
}

void Linear(const TensorView& x, const PackedWeight& weight, const TensorView& out,
            const LinearOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("linear", {{"x", x},
                       {"weight", ObjectText(PackedWeightAccess::Object(weight))},
                       {"out", out},
                       {"bias", options.bias},
                       {"residual", options.residual}});
  }
  const auto& w = PackedWeightAccess::Get(weight);
  CheckTensor("x", x).On(w.device).IsOneOf(kFloats).Shape({-1, w.cols}).LastDimDense();
  const Dims out_shape{x.shape(0), w.rows};
  CheckTensor("out", out).On(w.device).IsOneOf(kFloats).Shape(out_shape).LastDimDense().NoOverlap();
  CheckTensor("out", out).Apart("x", x).Apart("bias", options.bias);
  if (options.bias.defined()) {
    CheckTensor("bias", options.bias).On(w.device).Is(DType::kF32).Shape({w.rows}).LastDimDense();
  }
  const TensorView& residual = options.residual;
  if (residual.defined()) {
    CheckTensor("residual", residual).On(w.device).Is(out.dtype()).Shape(out_shape).LastDimDense();
    CheckTensor("out", out).ApartOrSame("residual", residual);
  }
  w.packed->Run({.x = x.data(),
                 .out = out.data(),
                 .bias = options.bias.data_as<const float>(),
                 .residual = residual.data(),
                 .num_tokens = x.shape(0),
                 .x_stride = x.stride(0),
                 .out_stride = out.stride(0),
                 .residual_stride = residual.defined() ? residual.stride(0) : 0,
                 .dtype_x = x.dtype(),
                 .dtype_out = out.dtype(),
                 .stream = cuda::StreamOn(w.device, stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("linear", {{"out", out}});
}

}  // namespace flashinfer
