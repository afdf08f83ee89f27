// SPDX-License-Identifier: Apache-2.0
// Tables of a device as copies in host memory: their numbers, strides and lives; what stays.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "cuda/device.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "flashinfer/stream.h"

namespace flashinfer::test {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

/// Numbers from `first` on, on the device.
class DeviceNumbers {
 public:
  DeviceNumbers(int64_t count, int32_t first) : numbers_(static_cast<size_t>(count)) {
    std::iota(numbers_.begin(), numbers_.end(), first);
    void* const block = workspace_.Reserve(numbers_.size() * 4);
    view_ = {block, DType::kI32, {count}, kDevice};
    Copy({numbers_.data(), DType::kI32, {count}}, view_, {kDevice});
  }
  const TensorView& view() const { return view_; }

 private:
  std::vector<int32_t> numbers_;
  Workspace workspace_{kDevice};
  TensorView view_;
};

std::vector<int32_t> Read(const TensorView& t) {
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < t.shape(0); ++i) {
    numbers.push_back(t.data_as<const int32_t>()[i * t.stride(0)]);
  }
  return numbers;
}

TEST(HostCopies, HoldWhatTheDeviceHas) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  const DeviceNumbers few(3, 10);
  const DeviceNumbers many(30000, -5);
  const std::vector<int32_t> on_host{1, 2};
  HostCopies copies;
  for (int round = 0; round < 2; ++round) {
    TensorView a = few.view();
    TensorView b{on_host.data(), DType::kI32, {2}};
    TensorView c;
    TensorView d = many.view();
    TensorView e{few.view().data(), DType::kI32, {0}, kDevice};
    TensorView f{many.view().data(), DType::kI32, {4}, {7}, kDevice};
    const std::array tables{&a, &b, &c, &d, &e, &f};
    copies.Fetch(tables, {kDevice});
    EXPECT_EQ(Read(a), (std::vector<int32_t>{10, 11, 12}));
    EXPECT_EQ(b.data(), on_host.data());
    EXPECT_FALSE(c.defined());
    EXPECT_EQ(d.device(), Device());
    EXPECT_EQ(Read(d).size(), 30000U);
    EXPECT_EQ(Read(d).back(), 29994);
    EXPECT_EQ(e.shape(0), 0);
    EXPECT_EQ(Read(f), (std::vector<int32_t>{-5, 2, 9, 16}));
  }
}

TEST(HostCopies, BeginBeforeTheyAreWanted) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  const DeviceNumbers few(3, 10);
  const DeviceNumbers others(5000, 7);
  const OwnedStream own(kDevice);
  HostCopies copies;
  // The same tables on the same stream; other tables, more than there was room for; another stream.
  for (const Stream stream : {Stream{kDevice}, own.stream(), Stream{kDevice}}) {
    for (const DeviceNumbers* fetched : {&few, &others, &few}) {
      TensorView a = few.view();
      TensorView b;
      const std::array begun{&a, &b};
      copies.Begin(begun, {kDevice});
      EXPECT_EQ(a.device(), kDevice);
      TensorView c = fetched->view();
      const std::array tables{&b, &c};
      copies.Fetch(tables, stream);
      EXPECT_EQ(Read(c).front(), fetched == &few ? 10 : 7);
      EXPECT_EQ(Read(c).back(), fetched == &few ? 12 : 5006);
    }
  }
}

TEST(HostCopies, AreOfOneDevice) {
  TensorView other{static_cast<void*>(nullptr), DType::kI32, {2}, {DeviceType::kCuda, 1}};
  const std::array tables{&other};
  HostCopies copies;
  EXPECT_THROW(copies.Fetch(tables, {kDevice}), Error);
  TensorView nothing;
  const std::array none{&nothing};
  copies.Fetch(none, {});
}

}  // namespace
}  // namespace flashinfer::test
