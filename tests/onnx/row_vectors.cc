// SPDX-License-Identifier: Apache-2.0
// ONNX vectors of operators on rows: norms, softmax, activation, casts.
#include <gtest/gtest.h>

#include "core/convert.h"
#include "flashinfer/activation.h"
#include "flashinfer/norm.h"
#include "flashinfer/quantize.h"
#include "flashinfer/sampling.h"
#include "support/compare.h"
#include "vector_case.h"

namespace flashinfer::test {
namespace {

/// `values` of [outer, count, inner] as [outer, inner, count], which puts the axis last.
std::vector<double> AxisLast(const std::vector<double>& values, int64_t count, int64_t inner) {
  std::vector<double> result(values.size());
  const auto total = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < total; ++i) {
    const int64_t outer = i / (count * inner), k = i / inner % count, rest = i % inner;
    result[static_cast<size_t>((outer * inner + rest) * count + k)] =
        values[static_cast<size_t>(i)];
  }
  return result;
}

template <class T>
void ExpectCast(const VectorCase& c) {
  const VectorTensor& from = c.input(0);
  const VectorTensor& to = c.output();
  for (size_t i = 0; i < from.values.size(); ++i) {
    const double cast = ToFloat(FromFloat<T>(static_cast<float>(from.values[i])));
    double expected = to.values[i];
    if (std::is_same_v<T, E2M1> && std::isnan(from.values[i])) expected = 6;  // ONNX gives -0
    EXPECT_TRUE(cast == expected || (std::isnan(cast) && std::isnan(expected)))
        << from.values[i] << " gives " << cast << ", expected " << expected;
  }
}

}  // namespace

void RunCastVector(const VectorCase& c) {
  const std::string& to = c.output().dtype;
  if (to == "f16") return ExpectCast<F16>(c);
  if (to == "bf16") return ExpectCast<BF16>(c);
  if (to == "e4m3") return ExpectCast<E4M3>(c);
  if (to == "e5m2") return ExpectCast<E5M2>(c);
  if (to == "e2m1x2") return ExpectCast<E2M1>(c);
  if (to == "e8m0") return ExpectCast<E8M0>(c);
  ASSERT_EQ(to, "f32");
  // Reading did the cast already: both sides must have come to the same numbers.
  for (size_t i = 0; i < c.input(0).values.size(); ++i) {
    const double cast = c.input(0).values[i], expected = c.output().values[i];
    EXPECT_TRUE(cast == expected || (std::isnan(cast) && std::isnan(expected)))
        << cast << ", expected " << expected;
  }
}

void RunRmsNormVector(const VectorCase& c) {
  const int64_t hidden_size = c.input(0).SizeFrom(c.Attribute<int64_t>("axis", -1));
  const int64_t num_rows = c.input(0).num_elements() / hidden_size;
  HostTensor out(DType::kF32, {num_rows, hidden_size});
  RmsNorm(MakeTensor(c.input(0), {num_rows, hidden_size}), MakeTensor(c.input(1), {hidden_size}),
          out, {.eps = c.Attribute("epsilon", 1e-5f)});
  EXPECT_TRUE(AllNear(out, c.output().values, ToleranceOf(DType::kF32, hidden_size)));
}

void RunLayerNormVector(const VectorCase& c) {
  const int64_t hidden_size = c.input(0).SizeFrom(c.Attribute<int64_t>("axis", -1));
  const int64_t num_rows = c.input(0).num_elements() / hidden_size;
  HostTensor out(DType::kF32, {num_rows, hidden_size});
  LayerNorm(MakeTensor(c.input(0), {num_rows, hidden_size}), MakeTensor(c.input(1), {hidden_size}),
            MakeTensor(c.input(2), {hidden_size}), out, {.eps = c.Attribute("epsilon", 1e-5f)});
  EXPECT_TRUE(AllNear(out, c.output().values, ToleranceOf(DType::kF32, hidden_size)));
}

void RunSoftmaxVector(const VectorCase& c) {
  const VectorTensor& x = c.input(0);
  auto axis = c.Attribute<int64_t>("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
  const int64_t count = x.shape[static_cast<size_t>(axis)], inner = x.SizeFrom(axis) / count;
  const int64_t num_rows = x.num_elements() / count;
  HostTensor probs(DType::kF32, {num_rows, count});
  Softmax(MakeTensor({x.dtype, {}, AxisLast(x.values, count, inner)}, {num_rows, count}), probs);
  EXPECT_TRUE(
      AllNear(probs, AxisLast(c.output().values, count, inner), ToleranceOf(DType::kF32, count)));
}

void RunSwishVector(const VectorCase& c) {
  ASSERT_EQ(c.Attribute("alpha", 1.0), 1.0);
  const int64_t size = c.input(0).num_elements();
  VectorTensor gated = c.input(0);
  gated.values.resize(static_cast<size_t>(2 * size), 1.0);  // silu(x) · 1
  HostTensor out(DType::kF32, {1, size});
  SiluAndMul(MakeTensor(gated, {1, 2 * size}), out);
  EXPECT_TRUE(AllNear(out, c.output().values, ToleranceOf(DType::kF32)));
}

/// With one scale for the tensor.
void RunQuantizeVector(const VectorCase& c) {
  const int64_t count = c.input(0).num_elements();
  HostTensor q(ParseDType(c.output().dtype), {1, count});
  Quantize(MakeTensor(c.input(0), {1, count}), q, MakeTensor(c.input(1), {1}), {.dynamic = false});
  EXPECT_TRUE(AllNear(q, c.output().values, {0, 0}));
}

void RunDequantizeVector(const VectorCase& c) {
  const int64_t count = c.input(0).num_elements();
  HostTensor out(ParseDType(c.output().dtype), {1, count});
  HostTensor scale(DType::kF32, {1});
  scale.Set({0}, c.input(1).values[0]);
  Dequantize(MakeTensor(c.input(0), {1, count}), scale, out);
  EXPECT_TRUE(AllNear(out, c.output().values, ToleranceOf(DType::kF32)));
}

}  // namespace flashinfer::test
