// SPDX-License-Identifier: Apache-2.0
// Element types, dimensions and tensor views.
#include "flashinfer/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/element.h"
#include "flashinfer/error.h"

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(Name(DType::kBF16), "bf16");
  EXPECT_EQ(SizeBytes(DType::kBF16), 2);
  EXPECT_EQ(SizeBytes(DType::kE2M1x2), 1);
  EXPECT_EQ(SizeBytes(DType::kI64), 8);
  EXPECT_THAT([] { ParseDType("fp16"); },
              ThrowsMessage<Error>(HasSubstr("'fp16' is not an element type; accepted: f32, f16")));
}

TEST(TensorView, DenseStridesSlicesAndElements) {
  std::vector<float> data(2 * 3 * 4);
  const TensorView t(data.data(), DType::kF32, {2, 3, 4});
  EXPECT_EQ(t.strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(t.num_elements(), 24);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t[1].data(), &data[12]);
  EXPECT_EQ(t[1][2].shape(), (Dims{4}));
  EXPECT_EQ(t[1][2].data(), &data[20]);
  EXPECT_EQ(t.Slice(1, 2).shape(), (Dims{1, 3, 4}));
  EXPECT_EQ(t.Slice(1, 2).data(), &data[12]);
  EXPECT_EQ(t.Slice(2, 2).num_elements(), 0);
  EXPECT_THAT([&] { t[2]; }, ThrowsMessage<Error>(HasSubstr("index 2 is outside")));
  EXPECT_THAT([&] { t.Slice(1, 3); }, ThrowsMessage<Error>(HasSubstr("rows 1 to 3 are outside")));
  EXPECT_EQ(Text(t), "f32[2, 3, 4] on cpu");
}

TEST(TensorView, ContiguousIgnoresStridesOfSizeOneAndOfEmptyTensors) {
  float x = 0;
  EXPECT_TRUE(TensorView(&x, DType::kF32, {1, 4}, {99, 1}).is_contiguous());
  EXPECT_FALSE(TensorView(&x, DType::kF32, {2, 4}, {5, 1}).is_contiguous());
  EXPECT_FALSE(TensorView(&x, DType::kF32, {2, 4}, {4, 2}).is_contiguous());
  EXPECT_TRUE(TensorView(&x, DType::kF32, {0, 4}, {7, 7}).is_contiguous());
  EXPECT_TRUE(TensorView(&x, DType::kF32, {}).is_contiguous());
  EXPECT_EQ(Text(TensorView(&x, DType::kBF16, {2, 4}, {5, 1}, {DeviceType::kCuda, 1})),
            "bf16[2, 4] strides=[5, 1] on cuda:1");
}

TEST(TensorView, UndefinedIsNoTensor) {
  EXPECT_FALSE(TensorView().defined());
  EXPECT_EQ(Text(TensorView()), "none");
  EXPECT_TRUE(TensorView(static_cast<void*>(nullptr), DType::kF32, {0}).defined());
}

TEST(TensorView, OffsetsPass32Bits) {
  auto* base = reinterpret_cast<char*>(4096);
  const TensorView t(static_cast<void*>(base), DType::kF16, {4, 2}, {int64_t{1} << 33, 1});
  EXPECT_EQ(static_cast<char*>(t[3].data()) - base, int64_t{3} << 34);
}

TEST(TensorView, ErrorsOfShape) {
  float x = 0;
  EXPECT_THROW(TensorView(&x, DType::kF32, {-1}), Error);
  EXPECT_THROW(TensorView(&x, DType::kF32, {2, 2}, {1}), Error);
  EXPECT_THROW((Dims{1, 2, 3, 4, 5, 6, 7}), Error);
}

TEST(Element, EveryTypeIsReadAsItWasWrittenAndClamped) {
  uint8_t bytes[8] = {};
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kE2M1x2 || dtype == DType::kI4x2) continue;
    const TensorView t(bytes, dtype, {1});
    WriteElement(t, 0, 1);
    EXPECT_EQ(ReadElement(t, 0), 1) << Name(dtype);
  }
  const TensorView i8(bytes, DType::kI8, {1});
  for (auto [value, stored] : {std::pair{1e9, 127.0}, {-1e9, -128.0}, {2.5, 2.0}, {-3.5, -4.0}}) {
    WriteElement(i8, 0, value);
    EXPECT_EQ(ReadElement(i8, 0), stored);
  }
  bytes[0] = 0x9f;
  std::vector<double> values;
  ForEachElement(TensorView(bytes, DType::kE2M1x2, {1}), [&](double v) { values.push_back(v); });
  ForEachElement(TensorView(bytes, DType::kI4x2, {1}), [&](double v) { values.push_back(v); });
  EXPECT_EQ(values, (std::vector<double>{-6, -0.5, -1, -7}));
}

}  // namespace
}  // namespace flashinfer
