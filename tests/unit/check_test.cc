// SPDX-License-Identifier: Apache-2.0
// What tensor checks accept and say.
#include "core/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CheckTest : public ::testing::Test {
 protected:
  float data[64] = {};
  TensorView Make(Dims shape, Dims strides) { return {data, DType::kF32, shape, strides}; }
};

TEST_F(CheckTest, MessagesNameArgumentValueAndWhatIsAccepted) {
  const TensorView t = Make({2, 3}, {4, 1});
  EXPECT_THAT(
      [&] {
        CheckTensor("q", t).Shape({2, -1, 4});
      },
      ThrowsMessage<Error>("q: shape is [2, 3], expected [2, any, 4]"));
  EXPECT_THAT([&] { CheckTensor("q", t).Is(DType::kI8); },
              ThrowsMessage<Error>("q: dtype is f32, accepted: i8"));
  EXPECT_THAT(
      [&] {
        CheckTensor("q", t).On({DeviceType::kCuda, 0});
      },
      ThrowsMessage<Error>("q: is on cpu, expected cuda:0"));
  EXPECT_THAT([&] { CheckTensor("q", t).Rank(3); },
              ThrowsMessage<Error>("q: shape is [2, 3], expected 3 dimensions"));
  EXPECT_THAT([&] { CheckTensor("q", t).Contiguous(); },
              ThrowsMessage<Error>(HasSubstr("q: f32[2, 3] strides=[4, 1] on cpu is not")));
  EXPECT_THAT([&] { CheckTensor("q", TensorView()); },
              ThrowsMessage<Error>("q: no tensor was given"));
  const TensorView null(static_cast<void*>(nullptr), DType::kF32, {1});
  EXPECT_THAT([&] { CheckTensor("q", null); }, ThrowsMessage<Error>(HasSubstr("is null")));
  CheckTensor("q", t).Shape({2, -1}).IsOneOf({DType::kI8, DType::kF32}).LastDimDense();
}

TEST_F(CheckTest, LastDimDense) {
  CheckTensor("q", Make({2, 1}, {4, 7})).LastDimDense();
  CheckTensor("q", Make({0, 3}, {0, 0})).LastDimDense();
  EXPECT_THROW(CheckTensor("q", Make({2, 3}, {4, 2})).LastDimDense(), Error);
}

TEST_F(CheckTest, NoOverlapKnowsStridesThatShareMemory) {
  CheckTensor("q", Make({2, 3}, {4, 1})).NoOverlap();
  CheckTensor("q", Make({3, 2}, {1, 3})).NoOverlap();
  CheckTensor("q", Make({1, 3}, {0, 1})).NoOverlap();
  CheckTensor("q", Make({0, 3}, {0, 0})).NoOverlap();
  CheckTensor("q", Make({2, 3}, {-4, 1})).NoOverlap();
  EXPECT_THROW(CheckTensor("q", Make({2, 3}, {0, 1})).NoOverlap(), Error);
  EXPECT_THROW(CheckTensor("q", Make({2, 3}, {2, 1})).NoOverlap(), Error);
}

TEST_F(CheckTest, KindsTellWhoseFaultItIs) {
  try {
    FLASHINFER_CHECK(1 > 2, "n: is {}", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_STREQ(error.what(), "n: is 1");
  }
  try {
    FLASHINFER_ASSERT(1 > 2, "n is {}", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("a bug of flashinfer"));
  }
}

}  // namespace
}  // namespace flashinfer
