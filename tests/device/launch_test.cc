// SPDX-License-Identifier: Apache-2.0
// The driver, the generator and a launch on a real GPU: right results, from any thread, and what a
// call costs the host.
#include "cuda/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "core/convert.h"
#include "cuda/memory.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "jit/nvrtc.h"
#include "jit/store.h"
#include "kernels/norm/norm_spec.h"

namespace flashinfer::cuda {
namespace {

using kernels::NormParams;
using kernels::NormSpec;

const Device kDevice{DeviceType::kCuda, 0};
const Stream kStream{kDevice};

constexpr int64_t kNumRows = 37;
constexpr int64_t kHiddenSize = 4096;

double Milliseconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

NormSpec Spec() { return kernels::MakeNormSpec(NormSpec{}, kHiddenSize, kNumRows); }

/// Rows of bf16 on the device, with weights, and NaN in the output.
class NormData {
 public:
  explicit NormData(uint64_t seed) : workspace_(kDevice) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal;
    for (auto* values : {&x_, &weight_}) {
      for (BF16& value : *values) value = FromFloat<BF16>(normal(rng));
    }
    constexpr size_t kBytes = kNumRows * kHiddenSize * 2;
    char* block = static_cast<char*>(workspace_.Reserve(3 * kBytes));
    CopyToDevice(block, x_.data(), x_.size() * 2, kStream);
    CopyToDevice(block + kBytes, weight_.data(), weight_.size() * 2, kStream);
    FillBytes(block + 2 * kBytes, 0xff, kBytes, kStream);
    params_ = {.x = block,
               .weight = block + kBytes,
               .bias = nullptr,
               .residual = nullptr,
               .out = block + 2 * kBytes,
               .scale = nullptr,
               .num_rows = kNumRows,
               .num_inner = 1,
               .x_stride_outer = kHiddenSize,
               .x_stride_inner = 0,
               .residual_stride_outer = 0,
               .residual_stride_inner = 0,
               .out_stride_outer = kHiddenSize,
               .out_stride_inner = 0,
               .hidden_size = kHiddenSize,
               .eps = 1e-5f,
               .weight_offset = 0,
               .host_scale = 1};
  }
  const NormParams& params() const { return params_; }
  void Run() const {
    Launch(jit::GetKernel(Spec(), kDevice), {.grid_x = kNumRows}, params_, kStream);
  }
  /// The largest difference to a float64 loop, relative to 1 + |expected|.
  double WorstError() const {
    std::vector<BF16> out(kNumRows * kHiddenSize);
    CopyToHost(out.data(), params_.out, out.size() * 2, kStream);
    double worst = 0;
    for (int64_t row = 0; row < kNumRows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < kHiddenSize; ++i) sum += std::pow(X(row, i), 2);
      const double scale = 1 / std::sqrt(sum / kHiddenSize + 1e-5);
      for (int64_t i = 0; i < kHiddenSize; ++i) {
        const double expected = X(row, i) * scale * ToFloat(weight_[static_cast<size_t>(i)]);
        const double got = ToFloat(out[static_cast<size_t>(row * kHiddenSize + i)]);
        const double error = std::abs(got - expected) / (1 + std::abs(expected));
        worst = error <= worst ? worst : error;  // NaN counts as worst
      }
    }
    return worst;
  }

 private:
  double X(int64_t row, int64_t i) const {
    return ToFloat(x_[static_cast<size_t>(row * kHiddenSize + i)]);
  }

  std::vector<BF16> x_ = std::vector<BF16>(kNumRows * kHiddenSize);
  std::vector<BF16> weight_ = std::vector<BF16>(kHiddenSize);
  Workspace workspace_;
  NormParams params_{};
};

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!Available(&why)) GTEST_SKIP() << why;
    if (jit::FindNvrtc(&why) == nullptr) GTEST_SKIP() << why;
  }
};

TEST_F(LaunchTest, DeviceIsKnown) {
  const DeviceProperties& p = Properties(kDevice);
  std::printf("%s: SM%d, %d multiprocessors, %d B of shared memory a block, %zu MiB\n",
              p.name.c_str(), p.arch, p.num_sms, p.smem_per_block_bytes, p.memory_bytes >> 20);
  EXPECT_GE(p.arch, 75);
  EXPECT_GE(p.num_sms, 1);
  EXPECT_GE(p.smem_per_block_bytes, 64 * 1024);
  EXPECT_EQ(ArchOf(Device{}), 0);
  EXPECT_EQ(ArchOf(kDevice), p.arch);
  EXPECT_THROW(Properties({DeviceType::kCuda, NumDevices()}), Error);
}

TEST_F(LaunchTest, NormMatchesTheLoop) {
  const auto start = std::chrono::steady_clock::now();
  const NormData data(std::random_device{}());
  std::printf("context and data %.1f ms\n", Milliseconds(start));
  const auto first = std::chrono::steady_clock::now();
  data.Run();
  Synchronize(kStream);
  std::printf("first call %.1f ms\n", Milliseconds(first));
  EXPECT_LT(data.WorstError(), 4e-3);
}

TEST_F(LaunchTest, AnyThreadMayLaunch) {
  const NormData data(3);
  std::thread([&] { data.Run(); }).join();
  EXPECT_LT(data.WorstError(), 4e-3);
}

TEST_F(LaunchTest, CurrentContextIsLeftAsItWas) {
  std::thread([] {
    Context context = nullptr;
    NormData(4).Run();
    Check(GetDriver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    EXPECT_EQ(context, nullptr);  // none before, none after
    Check(GetDriver().cuCtxPushCurrent_v2(Properties(kDevice).context), "cuCtxPushCurrent_v2");
    NormData(4).Run();
    Check(GetDriver().cuCtxPopCurrent_v2(&context), "cuCtxPopCurrent_v2");
    EXPECT_EQ(context, Properties(kDevice).context);
  }).join();
}

TEST_F(LaunchTest, RefusalsSayWhy) {
  const NormData data(5);
  const Kernel& kernel = jit::GetKernel(Spec(), kDevice);
  const auto launch = [&](int64_t x, int64_t y) {
    Launch(kernel, {.grid_x = x, .grid_y = y}, data.params(), kStream);
  };
  EXPECT_THAT([&] { launch(int64_t{1} << 31, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("grid is 2147483648 x 1 x 1")));
  EXPECT_THROW(launch(1, 65536), Error);
  launch(0, 1);  // nothing to do
  const CompiledKernel other = CompileKernel("norm.simt", kernel.device->arch == 80 ? "90a" : "80");
  EXPECT_THAT([&] { LoadKernel(other.cubin, "norm.simt", 512, 256, *kernel.device); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("of norm.simt: error 209, CUDA_ERROR_NO_BINARY_FOR_GPU")));
  data.Run();  // the context is as good as before
  EXPECT_LT(data.WorstError(), 4e-3);
}

TEST_F(LaunchTest, ACallFetchesNothingAndCostsLittle) {
  const NormData data(6);
  data.Run();
  const int64_t num_fetches = jit::NumFetches();
  constexpr int kCalls = 200;
  double best = 1e9;
  double best_lookup = 1e9;
  for (int round = 0; round < 20; ++round) {
    Synchronize(kStream);
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) data.Run();
    best = std::min(best, Milliseconds(start));
    start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) jit::GetKernel(Spec(), kDevice);
    best_lookup = std::min(best_lookup, Milliseconds(start));
  }
  std::printf("host: %.2f us a call, of it %.3f us to find the kernel\n", best / kCalls * 1e3,
              best_lookup / kCalls * 1e3);
  EXPECT_EQ(jit::NumFetches(), num_fetches);
  Synchronize(kStream);
}

}  // namespace
}  // namespace flashinfer::cuda
