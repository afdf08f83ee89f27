// SPDX-License-Identifier: Apache-2.0
// Element type table and tensor views.
#include "flashinfer/tensor.h"

#include <array>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace flashinfer {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t size_bytes;
};

constexpr std::array<DTypeRow, kNumDTypes> kDTypes{{
    {DType::kF32, "f32", 4},
    {DType::kF16, "f16", 2},
    {DType::kBF16, "bf16", 2},
    {DType::kE4M3, "e4m3", 1},
    {DType::kE5M2, "e5m2", 1},
    {DType::kE2M1x2, "e2m1x2", 1},
    {DType::kE8M0, "e8m0", 1},
    {DType::kI8, "i8", 1},
    {DType::kI4x2, "i4x2", 1},
    {DType::kU8, "u8", 1},
    {DType::kI32, "i32", 4},
    {DType::kI64, "i64", 8},
    {DType::kBool, "bool", 1},
}};

constexpr bool TableFollowsEnum() {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}
static_assert(TableFollowsEnum());

Dims DenseStrides(const Dims& shape) {
  Dims strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace

std::string_view Name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

int64_t SizeBytes(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size_bytes; }

DType ParseDType(std::string_view text) {
  std::vector<std::string> names;
  for (const DTypeRow& row : kDTypes) {
    if (row.name == text) return row.dtype;
    names.emplace_back(row.name);
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("'{}' is not an element type; accepted: {}", text, Join(names)));
}

std::string Name(Device device) {
  return device.type == DeviceType::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

void Dims::RankTooLarge() {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("a tensor has at most {} dimensions", kMaxRank));
}

TensorView::TensorView(void* data, DType dtype, Dims shape, Device device)
    : TensorView(data, dtype, shape, DenseStrides(shape), device) {}

TensorView::TensorView(void* data, DType dtype, Dims shape, Dims strides, Device device)
    : data_(data),
      shape_(shape),
      strides_(strides),
      device_(device),
      dtype_(dtype),
      defined_(true) {
  FLASHINFER_CHECK(shape.rank() == strides.rank(), "strides: {} values for a shape of {}",
                   strides.rank(), shape.rank());
  for (int64_t size : shape) {
    FLASHINFER_CHECK(size >= 0, "shape: {} has a negative size", Text(shape));
  }
}

int64_t TensorView::num_elements() const {
  int64_t count = 1;
  for (int64_t size : shape_) count *= size;
  return count;
}

bool TensorView::is_contiguous() const {
  if (num_elements() == 0) return true;
  int64_t stride = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != stride) return false;
    stride *= shape_[i];
  }
  return true;
}

TensorView TensorView::operator[](int64_t index) const {
  FLASHINFER_CHECK(rank() > 0 && index >= 0 && index < shape_[0],
                   "index {} is outside the first dimension of {}", index, Text(*this));
  TensorView sub = *this;
  sub.shape_ = Dims(std::span(shape_.begin() + 1, shape_.end()));
  sub.strides_ = Dims(std::span(strides_.begin() + 1, strides_.end()));
  sub.data_ = static_cast<char*>(data_) + index * strides_[0] * SizeBytes(dtype_);
  return sub;
}

TensorView TensorView::Slice(int64_t begin, int64_t end) const {
  FLASHINFER_CHECK(rank() > 0 && begin >= 0 && begin <= end && end <= shape_[0],
                   "rows {} to {} are outside the first dimension of {}", begin, end, Text(*this));
  TensorView sub = *this;
  sub.shape_[0] = end - begin;
  sub.data_ = static_cast<char*>(data_) + begin * strides_[0] * SizeBytes(dtype_);
  return sub;
}

std::string Text(const TensorView& tensor) {
  if (!tensor.defined()) return "none";
  std::string text = std::string(Name(tensor.dtype())) + Text(tensor.shape());
  if (!tensor.is_contiguous()) text += " strides=" + Text(tensor.strides());
  return text + " on " + Name(tensor.device());
}

}  // namespace flashinfer
