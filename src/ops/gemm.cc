// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: check, choose, run.
#include "ops/gemm.h"

#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

void Check(const TensorView& a, const TensorView& b, const TensorView& out) {
  CheckTensor("a", a).OnCpuAlone().IsOneOf(
      {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3, DType::kE5M2});
  FLASHINFER_CHECK(a.rank() == 2 || a.rank() == 3, "a: shape is {}, expected 2 or 3 dimensions",
                   Text(a.shape()));
  if (IsFp8(a.dtype())) {
    CheckTensor("b", b).On({}).IsOneOf({DType::kE4M3, DType::kE5M2});
  } else {
    CheckTensor("b", b).On({}).Is(a.dtype());
  }
  Dims b_shape = a.shape();
  b_shape[a.rank() - 2] = -1;
  CheckTensor("b", b).Shape(b_shape);
  Dims out_shape = a.shape();
  out_shape[a.rank() - 1] = b.shape(a.rank() - 2);
  CheckTensor("out", out).On({}).Shape(out_shape).LastDimDense().NoOverlap();
  CheckTensor("out", out).Apart("a", a).Apart("b", b);
  if (IsFp8(a.dtype())) {
    CheckTensor("out", out).IsOneOf({DType::kF32, DType::kF16, DType::kBF16});
  } else {
    CheckTensor("out", out).IsOneOf({a.dtype(), DType::kF32});
  }
}

}  // namespace

MatrixRows MatrixOf(const TensorView& matrix) {
  return {matrix.data(),   matrix.dtype(),   matrix.shape(0),
          matrix.shape(1), matrix.stride(0), matrix.stride(1)};
}

float CheckScale(std::string_view name, float value, const TensorView& tensor) {
  if (tensor.defined()) {
    const std::string tensor_name = fmt::format("{}_tensor", name);
    CheckTensor(tensor_name, tensor).On({}).Is(DType::kF32);
    FLASHINFER_CHECK(tensor.num_elements() == 1, "{}: shape is {}, expected one element",
                     tensor_name, Text(tensor.shape()));
    return *tensor.data_as<const float>();
  }
  FLASHINFER_CHECK(std::isfinite(value), "{}: is {}, accepted: finite numbers", name, value);
  return value;
}

void FillZero(const TensorView& out) {
  const size_t row_bytes = static_cast<size_t>(out.shape(1) * SizeBytes(out.dtype()));
  for (int64_t i = 0; i < out.shape(0); ++i) {
    std::memset(out.data_as<char>() + i * out.stride(0) * SizeBytes(out.dtype()), 0, row_bytes);
  }
}

void Gemm(const TensorView& a, const TensorView& b, const TensorView& out,
          const GemmOptions& options, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("gemm", {{"a", a},
                     {"b", b},
                     {"out", out},
                     {"a_scale", ValueText(options.a_scale)},
                     {"b_scale", ValueText(options.b_scale)},
                     {"a_scale_tensor", options.a_scale_tensor},
                     {"b_scale_tensor", options.b_scale_tensor}});
  }
  Check(a, b, out);
  const float scale = CheckScale("a_scale", options.a_scale, options.a_scale_tensor) *
                      CheckScale("b_scale", options.b_scale, options.b_scale_tensor);
  const int last = a.rank() - 1;
  const GemmProblem problem{a.dtype(),         b.dtype(),         out.dtype(),
                            a.shape(last - 1), b.shape(last - 1), a.shape(last)};
  const auto& run = Choose<GemmOp>(problem, options.backend);
  const int64_t batch_size = a.rank() == 3 ? a.shape(0) : 1;
  for (int64_t i = 0; i < batch_size && out.num_elements() > 0; ++i) {
    const TensorView product = a.rank() == 3 ? out[i] : out;
    if (problem.k == 0) {
      FillZero(product);
      continue;
    }
    run({.a = MatrixOf(a.rank() == 3 ? a[i] : a),
         .b = MatrixOf(a.rank() == 3 ? b[i] : b),
         .out = product.data(),
         .out_stride = product.stride(0),
         .dtype_out = product.dtype(),
         .scale = scale});
  }
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("gemm", {{"out", out}});
}

}  // namespace flashinfer
