// SPDX-License-Identifier: Apache-2.0
// Tensors that tests own.
#include "support/host_tensor.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"

namespace flashinfer::test {
namespace {

constexpr uint8_t kPoison = 0xff;
constexpr int64_t kMargin = 64;  // poisoned elements after the last one

int64_t Extent(const Dims& shape, const Dims& strides) {
  int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

int64_t OffsetOf(const TensorView& view, std::initializer_list<int64_t> index) {
  FLASHINFER_ASSERT(static_cast<int>(index.size()) == view.rank(), "index of the wrong rank");
  int64_t offset = 0;
  int i = 0;
  for (int64_t at : index) {
    FLASHINFER_ASSERT(at >= 0 && at < view.shape(i), "index {} of dimension {}", at, i);
    offset += at * view.stride(i++);
  }
  return offset;
}

}  // namespace

HostTensor::HostTensor(DType dtype, Dims shape)
    : HostTensor(dtype, shape, TensorView(static_cast<void*>(nullptr), dtype, shape).strides()) {}

HostTensor::HostTensor(DType dtype, Dims shape, Dims strides, int64_t offset)
    : bytes_(std::make_shared<Bytes>(
          static_cast<size_t>((offset + Extent(shape, strides) + kMargin) * SizeBytes(dtype)),
          kPoison)),
      view_(bytes_->data() + offset * SizeBytes(dtype), dtype, shape, strides) {}

HostTensor HostTensor::Clone() const {
  const int64_t offset =
      (view_.data_as<const uint8_t>() - bytes_->data()) / SizeBytes(view_.dtype());
  HostTensor clone(view_.dtype(), view_.shape(), view_.strides(), offset);
  std::copy(bytes_->begin(), bytes_->end(), clone.bytes_->begin());
  return clone;
}

double HostTensor::At(std::initializer_list<int64_t> index) const {
  return ReadElement(view_, OffsetOf(view_, index));
}

void HostTensor::Set(std::initializer_list<int64_t> index, double value) {
  WriteElement(view_, OffsetOf(view_, index), value);
}

HostTensor& HostTensor::FillNormal(std::mt19937_64& rng, double scale) {
  std::normal_distribution<double> normal(0.0, scale);
  ForEachOffset(view_, [&](int64_t offset) { WriteElement(view_, offset, normal(rng)); });
  return *this;
}

HostTensor& HostTensor::FillUniform(std::mt19937_64& rng, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  ForEachOffset(view_, [&](int64_t offset) { WriteElement(view_, offset, uniform(rng)); });
  return *this;
}

HostTensor& HostTensor::Fill(double value) {
  ForEachOffset(view_, [&](int64_t offset) { WriteElement(view_, offset, value); });
  return *this;
}

HostTensor& HostTensor::FillWith(std::initializer_list<double> values) {
  FLASHINFER_ASSERT(static_cast<int64_t>(values.size()) == view_.num_elements(), "wrong count");
  auto value = values.begin();
  ForEachOffset(view_, [&](int64_t offset) { WriteElement(view_, offset, *value++); });
  return *this;
}

std::vector<double> HostTensor::Values() const {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(view_.num_elements()));
  ForEachElement(view_, [&](double value) { values.push_back(value); });
  return values;
}

bool PaddingIsUntouched(const HostTensor& tensor) {
  const int64_t size = SizeBytes(tensor.view().dtype());
  const int64_t base = tensor.view().data_as<const uint8_t>() - tensor.bytes().data();
  std::vector<bool> is_element(tensor.bytes().size(), false);
  ForEachOffset(tensor.view(), [&](int64_t offset) {
    for (int64_t i = 0; i < size; ++i) {
      is_element[static_cast<size_t>(base + offset * size + i)] = true;
    }
  });
  for (size_t i = 0; i < is_element.size(); ++i) {
    if (!is_element[i] && tensor.bytes()[i] != kPoison) return false;
  }
  return true;
}

}  // namespace flashinfer::test
