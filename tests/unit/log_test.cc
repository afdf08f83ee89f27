// SPDX-License-Identifier: Apache-2.0
// The API log at each level, its file destination, and the one reading of the environment.
#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "core/env.h"
#include "flashinfer/activation.h"
#include "support/host_tensor.h"
#include "support/test_files.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LogTest : public ::testing::Test {
 protected:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("flashinfer_log_test_" + std::to_string(getpid()));
  std::filesystem::path file_ = folder_ / ("log_" + std::to_string(getpid()) + ".txt");

  LogTest() { std::filesystem::create_directories(folder_); }
  ~LogTest() override {
    SetLogging(0, "stderr");
    std::filesystem::remove_all(folder_);
  }

  /// What one call writes at a level; the destination's %i becomes the process id.
  std::string LogOfACall(int level) {
    SetLogging(level, (folder_ / "log_%i.txt").string());
    HostTensor x(DType::kF32, {1, 6}, {9, 1});
    x.FillWith({1, -2, NAN, 1, 1, INFINITY});
    HostTensor out(DType::kF32, {1, 3});
    SiluAndMul(x, out);
    SetLogging(0, "stderr");
    return ReadWholeFile(file_);
  }
};

TEST_F(LogTest, LevelZeroWritesNothing) { EXPECT_THAT(LogOfACall(0), IsEmpty()); }

TEST_F(LogTest, LevelOneWritesNames) { EXPECT_EQ(LogOfACall(1), "flashinfer: silu_and_mul\n"); }

TEST_F(LogTest, LevelThreeWritesArguments) {
  const std::string log = LogOfACall(3);
  EXPECT_THAT(log, HasSubstr("\n  x = f32[1, 6] on cpu\n  out = f32[1, 3] on cpu\n"));
  EXPECT_THAT(log, Not(HasSubstr("mean")));
}

TEST_F(LogTest, LevelFiveWritesStatisticsOfFiniteElements) {
  const std::string log = LogOfACall(5);
  EXPECT_THAT(log, HasSubstr("x = f32[1, 6] on cpu min=-2 max=1 mean=0.25 nan=1 inf=1\n"));
  EXPECT_THAT(log, HasSubstr("silu_and_mul wrote\n  out = f32[1, 3] on cpu"));
}

TEST_F(LogTest, AFileThatCannotBeOpenedFallsBackToStandardError) {
  ::testing::internal::CaptureStderr();
  SetLogging(1, "/nonexistent/folder/log");
  LogCall("op", {});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "flashinfer: FLASHINFER_LOGDEST: cannot open '/nonexistent/folder/log', using stderr\n"
            "flashinfer: op\n");
}

TEST_F(LogTest, StandardOutputIsADestination) {
  ::testing::internal::CaptureStdout();
  SetLogging(1, "stdout");
  LogCall("op", {});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "flashinfer: op\n");
}

TEST(Env, IsReadOnce) {
  GetEnv();
  const int64_t num_reads = NumEnvReads();
  EXPECT_GE(num_reads, static_cast<int64_t>(EnvSwitches().size()));  // and HOME, PATH, …
  HostTensor x(DType::kF32, {1, 2});
  HostTensor out(DType::kF32, {1, 1});
  x.Fill(1);
  SiluAndMul(x, out);
  EXPECT_EQ(NumEnvReads(), num_reads);
  for (const EnvSwitch& environment_switch : EnvSwitches()) {
    EXPECT_TRUE(environment_switch.name.starts_with("FLASHINFER_"));
    EXPECT_FALSE(environment_switch.meaning.empty());
  }
}

}  // namespace
}  // namespace flashinfer::test
