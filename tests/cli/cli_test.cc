// SPDX-License-Identifier: Apache-2.0
// The command line tool as a user runs it: output, exit codes, one-line errors.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace flashinfer::test {
namespace {

TEST_F(CliTest, BadInputIsOneLineAndAnExitCode) {
  ExpectRefused("", 2, "subcommand");
  ExpectRefused("generate --model x --frobnicate", 2, "frobnicate");
  ExpectRefused("generate --prompt hello", 2, "--model");
  ExpectRefused("generate --model '" + model_ + "'", 2, "prompt");
  ExpectRefused("generate --raw --prompt '' --model '" + model_ + "'", 2, "prompt");
  ExpectRefused("generate --raw --prompt a --top-p 2 --model '" + model_ + "'", 2, "top-p");
  ExpectRefused("generate --raw --prompt a --context 9999 --model '" + model_ + "'", 2, "context");
  ExpectRefused("generate --prompt a --model x --kv-mib 0", 2, "is 0, expected 1 or more");
  ExpectRefused("replay-trace --model x --length-scale nan", 2, "is nan, expected more than 0");
  ExpectRefused("replay-trace --model x --time-scale inf", 2, "is inf, expected 0 or more");
  ExpectRefused("generate --raw --prompt \"$(printf 'a\\377')\" --model '" + model_ + "'", 2,
                "prompt");
  ExpectRefused("generate --raw --prompt \"$(printf 'z%.0s' $(seq 300))\" --model '" + model_ + "'",
                2, "context");
  ExpectRefused("generate --raw --prompt a --model /nowhere/model.gguf", 6, "/nowhere/model.gguf");
  ExpectRefused("score --model '" + model_ + "' /nowhere/text.txt", 6, "/nowhere/text.txt");
  ExpectRefused("replay-trace /nowhere/t.jsonl --model '" + model_ + "'", 6, "/nowhere/t.jsonl");
  ExpectRefused("explain nothing", 2, "operator");
  ExpectRefused("bogus", 2, "'bogus' is no command");
  ExpectRefused("pack bogus", 2, "'bogus' is no command");
  ExpectRefused("compile norm.simt --show --json", 2, "excludes");
  ExpectRefused("compile prefill.mma --variant /tmp", 6, "/tmp: is a folder");
  ExpectRefused("pack build --arch 90a --recipe /tmp", 6, "/tmp: is a folder");
  ExpectRefused("pack verify /tmp", 6, "/tmp: is a folder");
  ExpectRefused("score /tmp --model '" + model_ + "'", 6, "/tmp: is a folder");
  std::filesystem::create_directories(folder_ / "dump" / "call" / "call.json");
  const Output replayed = Run("replay --dir '" + (folder_ / "dump").string() + "'");
  EXPECT_EQ(replayed.exit_code, 1) << replayed.err;
  EXPECT_NE(replayed.out.find("call.json: is a folder"), std::string::npos) << replayed.out;
  ExpectRefused("explain", 2, "problem or --matrix is required");
  ExpectRefused("explain norm hidden_size=-4", 2, "hidden_size: is -4, expected 1 or more");
  ExpectRefused("explain norm arch=9999999", 2, "arch: is 9999999, accepted: 0, 75");
  ExpectRefused("explain norm arch=90 arch=90", 2, "arch: is given twice");
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

TEST_F(CliTest, GenerateSaysWhatRan) {
  const std::string command =
      "generate --raw --prompt hello --max-tokens 2 --model '" + model_ + "' --device ";
  const Output json = Run(command + "cpu --json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["device"], "cpu");
  std::set<std::string> ops;
  for (const auto& [candidate, names] : parsed["operators"].items()) {
    EXPECT_TRUE(candidate.starts_with("cpu.")) << candidate;
    for (const std::string name : names) ops.insert(name);
  }
  EXPECT_TRUE(ops.contains("batch_decode"));
  EXPECT_TRUE(ops.contains("norm"));
  EXPECT_FALSE(ops.contains("batch_mla"));
  const Output table = Run(command + "cpu");
  EXPECT_NE(table.err.find("  device "), std::string::npos) << table.err;
  EXPECT_NE(table.err.find("norm"), std::string::npos) << table.err;
  ExpectRefused(command + "gpu", 2, "auto, cpu, cuda:N");
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

TEST_F(CliTest, ReplaysRecordedTraces) {
  const std::string model = DataFile("stories260K/stories260K.bin").string();
  const std::string mooncake = DataFile("traces/mooncake_conversation_first1500.jsonl").string();
  const std::string azure =
      DataFile("traces/AzureLLMInferenceTrace_conv_2023_first6000.csv").string();
  FLASHINFER_SKIP_WITHOUT(model);
  FLASHINFER_SKIP_WITHOUT(mooncake);
  FLASHINFER_SKIP_WITHOUT(azure);
  const std::string options =
      "' --requests 12 --length-scale 0.04 --time-scale 0.01 --json --model '" + model + "'";
  const Output shared = Run("replay-trace '" + mooncake + options);
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  const auto json = nlohmann::json::parse(shared.out);
  EXPECT_EQ(json["requests"], 12);
  EXPECT_GT(json["requests_cut"], 0);  // the longest are beyond this model's 512 tokens
  // All begin with the same block, 20 tokens at this scale: one page of 16 is shared by the rest.
  EXPECT_EQ(json["prefix_hits"], 11);
  EXPECT_EQ(json["prefix_hit_tokens"], 11 * 16);

  const Output apart = Run("replay-trace '" + azure + options);
  ASSERT_EQ(apart.exit_code, 0) << apart.err;
  EXPECT_EQ(nlohmann::json::parse(apart.out)["prefix_hits"], 0);  // it has no prefixes
}

TEST_F(CliTest, PeakMemoryIsTheFileTheCacheAndLittleMore) {
  FLASHINFER_SKIP_WITHOUT(ModelFile());
  const Output result =
      Run("generate --prompt 'Tell me of the sea.' --max-tokens 8 --kv-mib 32 "
          "--json --model '" +
          ModelFile().string() + "'");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double file_mib =
      static_cast<double>(std::filesystem::file_size(ModelFile())) / (1024.0 * 1024.0);
  EXPECT_LE(nlohmann::json::parse(result.out)["peak_memory_mib"], file_mib + 32 + 64);
}

TEST_F(CliTest, HelpOfEveryCommandHasExamples) {
  std::istringstream lines(Run("--help").out);
  std::string line;
  while (std::getline(lines, line) && line != "Subcommands:") {
  }
  std::vector<std::string> commands{"pack", "pack build", "pack list", "pack verify",
                                    "pack install"};
  while (std::getline(lines, line) && !line.empty()) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name != "pack" && name != "check" && name != "bench") commands.push_back(name);
  }
  ASSERT_GT(commands.size(), 20u);
  for (const std::string& command : commands) {
    const std::string help = Run(command + " --help").out;
    EXPECT_NE(help.find("Examples:\n  flashinfer " + command), std::string::npos) << help;
  }
}

TEST_F(CliTest, ExplainsADeviceThatIsNotHere) {
  // No machine has devices of both.
  for (const char* arch : {"75", "121"}) {
    const std::string command = std::string("explain norm dtype=bf16 arch=") + arch;
    const Output text = Run(command);
    EXPECT_EQ(text.exit_code, 0) << text.err;
    const auto json = nlohmann::json::parse(Run(command + " --json").out);
    EXPECT_EQ(json["chosen"], "cuda.simt");
    if (json.contains("note")) {
      EXPECT_NE(text.out.find("cuda.simt        would run it"), std::string::npos) << text.out;
      EXPECT_NE(text.out.find("not on this machine: "), std::string::npos) << text.out;
    }
  }
}

TEST_F(CliTest, WrongSwitchesAreNamedAndIgnored) {
  for (const char* setting : {"NUM_THREADS=-1", "NUM_THREADS=abc", "LOGLEVEL=abc",
                              "DISABLE_JIT=yes", "PACKS=/none", "CUDA_ARCH=90a"}) {
    const Output result = RunWith(std::string("FLASHINFER_") + setting, "show-config");
    const std::string name = std::string(setting).substr(0, std::string(setting).find('='));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err.rfind("flashinfer: FLASHINFER_" + name + ": ", 0), 0U) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
  EXPECT_EQ(RunWith("FLASHINFER_NUM_THREADS=2", "show-config").err, "");
}

TEST_F(CliTest, ToldOfItself) {
  EXPECT_EQ(Run("--version").exit_code, 0);
  EXPECT_NE(Run("show-config").out.find("FLASHINFER_NUM_THREADS"), std::string::npos);
  const auto config = nlohmann::json::parse(Run("show-config --json").out);
  EXPECT_GT(config["threads"].get<int>(), 0);
  EXPECT_TRUE(config["kernels"].is_number());
  EXPECT_NE(Run("explain --matrix").out.find("`norm`"), std::string::npos);
  EXPECT_NE(Run("explain norm dtype=bf16").out.find("cpu."), std::string::npos);
  const auto json = nlohmann::json::parse(Run("explain norm dtype=bf16 --json").out);
  EXPECT_EQ(json["chosen"].get<std::string>().rfind("cpu.", 0), 0U);
  EXPECT_EQ(json["candidates"][0]["name"], "cuda.simt");
  EXPECT_FALSE(json["candidates"][0]["accepted"]);
  EXPECT_NE(json["candidates"][0]["reason"], "");
  EXPECT_EQ(Run("tokenize --text '' --model '" + model_ + "'").out, "\n");
}

}  // namespace
}  // namespace flashinfer::test
