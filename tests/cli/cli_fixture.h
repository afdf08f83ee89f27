// SPDX-License-Identifier: Apache-2.0
// A folder with a tiny model, and ways to run the tool in it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/test_files.h"
#include "support/tiny_model.h"

namespace flashinfer::test {

struct Output {
  int exit_code = -1;
  std::string out, err;
};

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("flashinfer-cli-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    model_ = (folder_ / "tiny.gguf").string();
    WriteWholeFile(model_, MakeTinyGguf({}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Runs the tool with words as a shell reads them.
  Output Run(const std::string& words) const { return RunWith("", words); }
  /// The same with settings of the environment: `NAME=value …`.
  Output RunWith(const std::string& settings, const std::string& words) const {
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    const std::string command =
        settings + " '" FLASHINFER_CLI "' " + words + " </dev/null >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadWholeFile(out), ReadWholeFile(err)};
  }
  void ExpectRefused(const std::string& words, int exit_code, const std::string& message) const {
    SCOPED_TRACE(words);
    const Output result = Run(words);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }

  std::filesystem::path folder_;
  std::string model_;
};

}  // namespace flashinfer::test
