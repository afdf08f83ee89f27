// SPDX-License-Identifier: Apache-2.0
// Run() on a CUDA device allocates nothing, takes no lock, looks no kernel up beyond those that are
// loaded and reads no environment; plans of pure integers likewise allocate nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cuda/driver.h"
#include "cuda/memory.h"
#include "device/family_calls.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "jit/key.h"
#include "jit/store.h"
#include "kernels/norm/norm_spec.h"
#include "plan/decode_plan.h"
#include "support/call_counters.h"

namespace flashinfer::test {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

void ExpectSame(const CallCounts& after, const CallCounts& before) {
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.environment_reads, before.environment_reads);
  EXPECT_EQ(after.library_locks, before.library_locks);
  EXPECT_EQ(after.kernel_fetches, before.kernel_fetches);
}

TEST(QuietRun, TheCountersCount) {
  const CallCounts before = CountedCalls();
  const auto block = std::make_unique<std::vector<int>>(3);
  EXPECT_NE(std::getenv("PATH"), nullptr);
  try {  // from the cache, compiled, or refused: the store locks and looks in any case
    jit::Fetch(jit::Render(kernels::NormSpec{}), jit::TargetOf(90));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
  }
  const CallCounts after = CountedCalls();
  EXPECT_GT(after.allocations, before.allocations);
  EXPECT_GT(after.environment_reads, before.environment_reads);
  EXPECT_GT(after.library_locks, before.library_locks);
  EXPECT_GT(after.kernel_fetches, before.kernel_fetches);
}

/// Stands in for what calls ask the driver for: its own doings are not the library's.
class CountedDriver {
 public:
  CountedDriver() { Swap(); }
  ~CountedDriver() { Swap(); }
  CountedDriver(const CountedDriver&) = delete;
  CountedDriver& operator=(const CountedDriver&) = delete;

  static int64_t num_launches() { return launches; }

 private:
  static cuda::Result Launch(const cuda::LaunchConfig*, cuda::FunctionHandle, void**, void**) {
    ++launches;
    return cuda::kSuccess;
  }
  static cuda::Result Fill(cuda::DevicePointer, unsigned char, size_t, cuda::StreamHandle) {
    return cuda::kSuccess;
  }
  void Swap() {
    auto& driver = const_cast<cuda::Driver&>(cuda::GetDriver());
    std::swap(driver.cuLaunchKernelEx, launch_);
    std::swap(driver.cuMemsetD8Async, fill_);
  }

  static inline int64_t launches = 0;
  decltype(cuda::Driver::cuLaunchKernelEx) launch_ = Launch;
  decltype(cuda::Driver::cuMemsetD8Async) fill_ = Fill;
};

TEST(QuietRun, EveryFamily) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  for (FamilyCall& call : FamilyCalls(kDevice)) {
    SCOPED_TRACE(call.name);
    const OwnedStream stream(kDevice);
    call.prepare(1, stream.stream());
    call.on->Send();
    call.run(stream.stream());
    cuda::Synchronize(stream.stream());
    const CountedDriver driver;
    const int64_t launched = CountedDriver::num_launches();
    const CallCounts before = CountedCalls();
    for (int i = 0; i < 3; ++i) call.run(stream.stream());
    ExpectSame(CountedCalls(), before);
    EXPECT_GE(CountedDriver::num_launches() - launched, 3);
  }
}

TEST(QuietRun, DecodePlansOfABatchNoLargerThanBefore) {
  std::vector<int64_t> kv_len;
  std::vector<int64_t> page_begin;
  for (int64_t b = 0; b < 256; ++b) {
    kv_len.push_back(b * 37 % 9000);
    page_begin.push_back(b * 1000);
  }
  const DecodeBatch batch{kv_len, page_begin};
  const DecodePlanLimits limits{.num_slots = 132, .max_partials = 266};
  DecodePlan plan;
  PlanDecode(batch, limits, plan);
  std::reverse(kv_len.begin(), kv_len.end());
  const CallCounts before = CountedCalls();
  PlanDecode(batch, limits, plan);
  ExpectSame(CountedCalls(), before);
  EXPECT_GT(plan.num_partials, 0);
}

}  // namespace
}  // namespace flashinfer::test
