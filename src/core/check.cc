// SPDX-License-Identifier: Apache-2.0
// Tensor checks; the messages are made only when a check fails.
#include "core/check.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/overlap.h"
#include "core/text.h"

namespace flashinfer {

CheckTensor::CheckTensor(std::string_view name, const TensorView& tensor)
    : name_(name), tensor_(tensor) {
  FLASHINFER_CHECK(tensor.defined(), "{}: no tensor was given", name);
  FLASHINFER_CHECK(tensor.data() != nullptr || tensor.num_elements() == 0,
                   "{}: the data pointer of {} is null", name, Text(tensor));
}

const CheckTensor& CheckTensor::On(Device device) const {
  FLASHINFER_CHECK(tensor_.device() == device, "{}: is on {}, expected {}", name_,
                   Name(tensor_.device()), Name(device));
  return *this;
}

const CheckTensor& CheckTensor::OnCpuAlone() const {
  if (tensor_.device().type != DeviceType::kCpu) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: is on {}, and this operator runs on the CPU alone", name_,
                            Name(tensor_.device())));
  }
  return *this;
}

const CheckTensor& CheckTensor::Is(DType dtype) const { return IsOneOf({dtype}); }

const CheckTensor& CheckTensor::IsOneOf(std::initializer_list<DType> dtypes) const {
  if (std::find(dtypes.begin(), dtypes.end(), tensor_.dtype()) == dtypes.end()) [[unlikely]] {
    std::vector<std::string> names;
    for (DType dtype : dtypes) names.emplace_back(Name(dtype));
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: dtype is {}, accepted: {}", name_,
                                                         Name(tensor_.dtype()), Join(names)));
  }
  return *this;
}

const CheckTensor& CheckTensor::Rank(int rank) const {
  FLASHINFER_CHECK(tensor_.rank() == rank, "{}: shape is {}, expected {} dimensions", name_,
                   Text(tensor_.shape()), rank);
  return *this;
}

const CheckTensor& CheckTensor::Shape(const Dims& shape) const {
  bool fits = tensor_.rank() == shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) {
    fits = shape[i] < 0 || tensor_.shape(i) == shape[i];
  }
  if (!fits) [[unlikely]] {
    std::vector<std::string> sizes;
    for (int64_t size : shape) sizes.push_back(size < 0 ? "any" : std::to_string(size));
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: shape is {}, expected [{}]", name_,
                                                         Text(tensor_.shape()), Join(sizes)));
  }
  return *this;
}

const CheckTensor& CheckTensor::LastDimDense() const {
  const int last = tensor_.rank() - 1;
  FLASHINFER_CHECK(last < 0 || tensor_.stride(last) == 1 || tensor_.shape(last) == 1 ||
                       tensor_.num_elements() == 0,  // strides of which mean nothing
                   "{}: stride of the last dimension is {}, expected 1", name_,
                   tensor_.stride(last));
  return *this;
}

const CheckTensor& CheckTensor::Contiguous() const {
  FLASHINFER_CHECK(tensor_.is_contiguous(), "{}: {} is not contiguous", name_, Text(tensor_));
  return *this;
}

const CheckTensor& CheckTensor::NoOverlap() const {
  std::array<std::pair<int64_t, int64_t>, kMaxRank> dims;  // |stride|, size
  size_t count = 0;
  for (int i = 0; i < tensor_.rank(); ++i) {
    if (tensor_.shape(i) == 0) return *this;
    if (tensor_.shape(i) == 1) continue;
    const int64_t stride = tensor_.stride(i);
    const std::pair<int64_t, int64_t> dim{stride < 0 ? -stride : stride, tensor_.shape(i)};
    size_t at = count++;  // insertion keeps them sorted
    for (; at > 0 && dims[at - 1] > dim; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int64_t extent = 1;  // elements spanned by the dimensions so far
  for (size_t i = 0; i < count; ++i) {
    FLASHINFER_CHECK(dims[i].first >= extent, "{}: {} has elements that share memory", name_,
                     Text(tensor_));
    extent = dims[i].first * (dims[i].second - 1) + extent;
  }
  return *this;
}

const CheckTensor& CheckTensor::Apart(std::string_view other_name, const TensorView& other) const {
  FLASHINFER_CHECK(!other.defined() || !SharesMemory(tensor_, other),
                   "{}: shares memory with {}, expected memory of its own", name_, other_name);
  return *this;
}

const CheckTensor& CheckTensor::ApartOrSame(std::string_view other_name,
                                            const TensorView& other) const {
  FLASHINFER_CHECK(
      !other.defined() || IsSameView(tensor_, other) || !SharesMemory(tensor_, other),
      "{}: shares memory with {}, expected memory of its own or the whole of {} in the same order",
      name_, other_name, other_name);
  return *this;
}

void CheckIndptr(std::string_view name, const TensorView& indptr) {
  CheckTensor(name, indptr).On({}).Is(DType::kI32).Rank(1);
  FLASHINFER_CHECK(indptr.shape(0) >= 1, "{}: is empty, expected one value more than parts", name);
  const int32_t* values = indptr.data_as<const int32_t>();
  const int64_t stride = indptr.stride(0);
  FLASHINFER_CHECK(values[0] == 0, "{}[0]: is {}, expected 0", name, values[0]);
  for (int64_t i = 1; i < indptr.shape(0); ++i) {
    FLASHINFER_CHECK(values[i * stride] >= values[(i - 1) * stride],
                     "{}[{}]: is {}, less than {} before it", name, i, values[i * stride],
                     values[(i - 1) * stride]);
  }
}

}  // namespace flashinfer
