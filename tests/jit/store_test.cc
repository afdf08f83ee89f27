// SPDX-License-Identifier: Apache-2.0
// Many threads and one store: a kernel is compiled once, failures are everybody's, others go on.
#include "jit/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "flashinfer/error.h"
#include "jit/cache_folder.h"
#include "jit/nvrtc.h"

namespace flashinfer::jit {
namespace {

const Target kTarget{80};

/// A unit that needs no kernel family: `body` is all that its entry does.
Unit MakeUnit(const std::string& body) {
  return {.spec = "test " + body,
          .headers = {"kernels/portable.h"},
          .source = "extern \"C\" __global__ void flashinfer_kernel(float* x) { " + body + " }\n",
          .num_threads = 32,
          .smem_bytes = 0,
          .min_arch = 75};
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (FindNvrtc(&why) == nullptr) GTEST_SKIP() << why;
    folder_ =
        std::filesystem::temp_directory_path() / ("flashinfer-store-" + std::to_string(getpid()));
    SetCacheFolder(folder_.string());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(StoreTest, ManyThreadsGetOneKernel) {
  const Unit unit = MakeUnit("x[0] = 1;");
  std::vector<Fetched> fetched(32);
  std::vector<std::thread> threads;
  threads.reserve(fetched.size());
  for (Fetched& f : fetched) threads.emplace_back([&] { f = Fetch(unit, kTarget); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(fetched, Origin::kCompiled, &Fetched::origin), 1);
  EXPECT_EQ(std::ranges::count(fetched, Origin::kMemory, &Fetched::origin), 31);
  for (const Fetched& f : fetched) EXPECT_EQ(f.binary, fetched[0].binary);
}

TEST_F(StoreTest, AnotherTargetIsAnotherKernel) {
  const Unit unit = MakeUnit("x[0] = 2;");
  EXPECT_EQ(Fetch(unit, kTarget).origin, Origin::kCompiled);
  EXPECT_EQ(Fetch(unit, {90, Features::kChip}).origin, Origin::kCompiled);
  EXPECT_EQ(Fetch(unit, kTarget).origin, Origin::kMemory);
  EXPECT_NE(Digest(unit, {90}), Digest(unit, {90, Features::kChip}));
}

TEST_F(StoreTest, AFailureIsEverybodysAndForgotten) {
  const Unit unit = MakeUnit("x[0] = undeclared;");
  std::vector<std::string> messages(8);
  std::vector<std::thread> threads;
  threads.reserve(messages.size());
  for (std::string& message : messages) {
    threads.emplace_back([&] {
      try {
        Fetch(unit, kTarget);
      } catch (const Error& error) {
        message = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kCompile);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) {
    EXPECT_THAT(message, testing::HasSubstr("error: identifier \"undeclared\" is undefined"));
    EXPECT_THAT(message, testing::HasSubstr("the unit was left in " + folder_.string()));
  }
  // Nothing is remembered of it: compiling it again fails anew, and others are as before.
  EXPECT_THROW(Fetch(unit, kTarget), Error);
  EXPECT_EQ(Fetch(MakeUnit("x[0] = 3;"), kTarget).origin, Origin::kCompiled);
}

TEST_F(StoreTest, TheAssemblersReportIsRead) {
  const Fetched fetched = Fetch(MakeUnit("__shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; "
                                         "__syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x];"),
                                kTarget);
  const Resources& r = fetched.binary->resources;
  EXPECT_GT(r.num_registers, 0);
  EXPECT_EQ(r.static_smem_bytes, 256);
  EXPECT_EQ(r.spill_store_bytes, 0);
  EXPECT_EQ(r.stack_bytes, 0);
}

TEST_F(StoreTest, AnOldArchitectureIsRefused) {
  Unit unit = MakeUnit("x[0] = 4;");
  unit.min_arch = 90;
  EXPECT_THAT([&] { Fetch(unit, kTarget); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("needs SM90, this is SM80")));
}

}  // namespace
}  // namespace flashinfer::jit
