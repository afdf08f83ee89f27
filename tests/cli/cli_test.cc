// SPDX-License-Identifier: Apache-2.0
// The command line tool as a user runs it: output, exit codes, one-line errors.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/test_files.h"
#include "support/tiny_model.h"

namespace flashinfer::test {
namespace {

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
  Output Run(const std::string& words) const {
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    const std::string command =
        "'" FLASHINFER_CLI "' " + words + " </dev/null >'" + out + "' 2>'" + err + "'";
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

TEST_F(CliTest, BadInputIsOneLineAndAnExitCode) {
  ExpectRefused("", 2, "subcommand");
  ExpectRefused("generate --model x --frobnicate", 2, "frobnicate");
  ExpectRefused("generate --prompt hello", 2, "--model");
  ExpectRefused("generate --model '" + model_ + "'", 2, "prompt");
  ExpectRefused("generate --raw --prompt '' --model '" + model_ + "'", 2, "prompt");
  ExpectRefused("generate --raw --prompt a --top-p 2 --model '" + model_ + "'", 2, "top-p");
  ExpectRefused("generate --raw --prompt a --context 9999 --model '" + model_ + "'", 2, "context");
  ExpectRefused("generate --raw --prompt \"$(printf 'a\\377')\" --model '" + model_ + "'", 2,
                "prompt");
  ExpectRefused("generate --raw --prompt \"$(printf 'z%.0s' $(seq 300))\" --model '" + model_ + "'",
                2, "context");
  ExpectRefused("generate --raw --prompt a --model /nowhere/model.gguf", 6, "/nowhere/model.gguf");
  ExpectRefused("score --model '" + model_ + "' /nowhere/text.txt", 6, "/nowhere/text.txt");
  ExpectRefused("replay-trace /nowhere/t.jsonl --model '" + model_ + "'", 6, "/nowhere/t.jsonl");
  ExpectRefused("explain nothing", 2, "operator");
}

TEST_F(CliTest, GenerateSaysHowManyTokensTheAnswerHas) {
  const Output one = Run(
      "generate --raw --prompt hello --max-tokens 7 --ignore-eos --json --model '" + model_ + "'");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const auto json = nlohmann::json::parse(one.out);
  EXPECT_EQ(json["generated_tokens"], 7);
  EXPECT_TRUE(json["text"].is_string());
  EXPECT_GT(json["peak_memory_mib"].get<double>(), 0);

  const Output two =
      Run("generate --raw --prompt hello --prompt ab --max-tokens 7 --ignore-eos "
          "--json --model '" +
          model_ + "'");
  ASSERT_EQ(two.exit_code, 0) << two.err;
  const auto batch = nlohmann::json::parse(two.out);
  ASSERT_EQ(batch["text"].size(), 2U);
  EXPECT_EQ(batch["text"][0], json["text"]);
  EXPECT_EQ(batch["generated_tokens"], 14);
}

TEST_F(CliTest, ReplaysASyntheticTrace) {
  const Output result =
      Run("replay-trace --requests 5 --length-scale 0.05 --time-scale 0 --json "
          "--model '" +
          model_ + "'");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["requests"], 5);
  EXPECT_LE(json["time_to_first_token_ms"]["p50"], json["time_to_first_token_ms"]["p99"]);
}

TEST_F(CliTest, ToldOfItself) {
  EXPECT_EQ(Run("--version").exit_code, 0);
  EXPECT_NE(Run("show-config").out.find("FLASHINFER_NUM_THREADS"), std::string::npos);
  EXPECT_NE(Run("explain --matrix").out.find("`rmsnorm`"), std::string::npos);
  EXPECT_NE(Run("explain rmsnorm dtype=bf16").out.find("cpu."), std::string::npos);
  EXPECT_EQ(Run("tokenize --text '' --model '" + model_ + "'").out, "\n");
}

}  // namespace
}  // namespace flashinfer::test
