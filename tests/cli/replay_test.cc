// SPDX-License-Identifier: Apache-2.0
// Dumps of every operator, replayed by the command line tool; limits and damaged dumps.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/replay_calls.h"
#include "core/dump.h"
#include "flashinfer/activation.h"
#include "flashinfer/error.h"
#include "support/host_tensor.h"
#include "support/test_files.h"

namespace flashinfer::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

void CallSiluAndMul() {
  HostTensor x(DType::kF32, {2, 12});
  x.Fill(1);
  HostTensor out(DType::kF32, {2, 6});
  SiluAndMul(x, out);
}

struct Output {
  int exit_code = -1;
  std::string out, err;
};

class ReplayTest : public ::testing::Test {
 protected:
  fs::path folder_ = fs::temp_directory_path() / ("flashinfer_replay_" + std::to_string(getpid()));
  fs::path dumps_ = folder_ / "dumps";

  ReplayTest() { fs::create_directories(dumps_); }
  ~ReplayTest() override {
    SetLogging(0, "stderr");
    fs::remove_all(folder_);
  }

  void StartDumping(DumpSettings settings = {}) {
    settings.folder = dumps_.string();
    if (settings.max_size_gb == 0) settings.max_size_gb = 1;
    if (settings.max_count == 0) settings.max_count = 1000;
    SetLogging(10, (folder_ / "log").string());
    SetDumping(settings);
  }

  Output Run(const std::string& words) const {
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    const std::string command = "'" FLASHINFER_CLI "' " + words + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadWholeFile(out), ReadWholeFile(err)};
  }
  Output Replay() const { return Run("replay --json --dir '" + dumps_.string() + "'"); }

  /// Folders of calls, in order.
  std::vector<fs::path> Folders() const {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(dumps_)) folders.push_back(entry.path());
    std::ranges::sort(folders);
    return folders;
  }
};

std::set<std::string> Lines(const std::string& text) {
  std::istringstream lines(text);
  std::set<std::string> set;
  for (std::string line; std::getline(lines, line);) set.insert(line);
  return set;
}

TEST_F(ReplayTest, EveryOperatorGivesTheSameAgain) {
  StartDumping();
  for (const NamedCall& call : EveryCall()) call.run();
  SetLogging(0, "stderr");
  const Output output = Replay();
  ASSERT_EQ(output.exit_code, 0) << output.out << output.err;
  const Json json = Json::parse(output.out);
  EXPECT_EQ(json["same"], Folders().size()) << output.out;
  std::set<std::string> ops;
  for (const Json& call : json["calls"]) ops.insert(call["op"]);
  EXPECT_EQ(ops, Lines(Run("replay --list").out));
}

TEST_F(ReplayTest, EveryLoggedOperatorCanBeReplayed) {
  const std::set<std::string> replayable = Lines(Run("replay --list").out);
  const std::regex call("LogCall\\(\\s*\"([a-z0-9_.]+)\"");
  size_t num_found = 0;
  for (const auto& entry :
       fs::directory_iterator(EnvOr("FLASHINFER_SOURCE_DIR", ".") + "/src/ops")) {
    const std::string source = ReadWholeFile(entry.path());
    for (auto at = std::sregex_iterator(source.begin(), source.end(), call);
         at != std::sregex_iterator(); ++at, ++num_found) {
      EXPECT_EQ(replayable.count((*at)[1].str()), 1U)
          << entry.path() << ": " << (*at)[1] << " has no row in a cli/replay_<family>.cc";
    }
  }
  EXPECT_GT(num_found, 10U);
}

TEST_F(ReplayTest, InstructionSetsAreClose) {
  StartDumping();
  Call("gemm");
  Call("decode");
  Call("prefill");
  ::setenv("FLASHINFER_BACKEND", "cpu.scalar", 1);
  const Output output = Replay();
  ::unsetenv("FLASHINFER_BACKEND");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
}

TEST_F(ReplayTest, ADifferenceIsAMismatchAndAnExitCode) {
  StartDumping();
  CallSiluAndMul();
  Call("gemm");
  const fs::path file = Folders().at(0) / "returned.out.bin";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("\x00\x00\x20\x41", 4);
  const Output output = Replay();
  EXPECT_EQ(output.exit_code, 1);
  const Json json = Json::parse(output.out);
  EXPECT_EQ(json["mismatch"], 1);
  EXPECT_EQ(json["same"], 2);
  EXPECT_EQ(json["calls"][0]["note"], "out: 1 of 12 elements differ");
  const Output table = Run("replay --dir '" + dumps_.string() + "'");
  EXPECT_EQ(table.exit_code, 1);
  EXPECT_NE(table.out.find("3 calls: 2 same, 0 close, 1 mismatches"), std::string::npos)
      << table.out;
}

TEST_F(ReplayTest, DamagedDumpsFailAndOthersGoOn) {
  StartDumping();
  for (int i = 0; i < 4; ++i) CallSiluAndMul();
  const auto folders = Folders();
  fs::resize_file(folders.at(0) / "x.bin", 8);
  std::ofstream(folders.at(1) / "call.json") << "{\"op\": ";
  fs::remove(folders.at(2) / "return.json");
  const Output output = Replay();
  EXPECT_EQ(output.exit_code, 1);
  const Json json = Json::parse(output.out);
  EXPECT_EQ(json["failed"], 2) << output.out;
  EXPECT_EQ(json["skipped"], 1);
  EXPECT_EQ(json["same"], 1);
}

TEST_F(ReplayTest, AFolderWithoutDumpsIsAnError) {
  EXPECT_EQ(Replay().exit_code, 6);
  EXPECT_EQ(Run("replay --dir /nowhere").exit_code, 6);
  EXPECT_EQ(Run("replay").exit_code, 2);
}

TEST_F(ReplayTest, LimitsEndDumpingWithALine) {
  StartDumping({.folder = "", .max_size_gb = 0, .max_count = 3, .include = "", .exclude = ""});
  for (int i = 0; i < 6; ++i) CallSiluAndMul();
  EXPECT_EQ(Folders().size(), 3U);
  const std::string log = ReadWholeFile(folder_ / "log");
  EXPECT_NE(log.find("FLASHINFER_DUMP_MAX_COUNT of 3 is reached"), std::string::npos) << log;

  fs::remove_all(dumps_);
  // A call takes 2 · (12 + 6) floats before and 2 · 6 after.
  StartDumping({.folder = "", .max_size_gb = 500e-9, .max_count = 0, .include = "", .exclude = ""});
  for (int i = 0; i < 6; ++i) CallSiluAndMul();
  EXPECT_EQ(Folders().size(), 2U);
  EXPECT_EQ(Replay().exit_code, 0);
}

TEST_F(ReplayTest, OperatorsAreChosenByName) {
  StartDumping(
      {.folder = "", .max_size_gb = 0, .max_count = 0, .include = "gemm,r*", .exclude = "rope*"});
  for (const NamedCall& call : EveryCall()) call.run();
  std::set<std::string> ops;
  for (const fs::path& folder : Folders()) {
    ops.insert(Json::parse(ReadWholeFile(folder / "call.json"))["op"]);
  }
  EXPECT_EQ(ops, (std::set<std::string>{"gemm", "rmsnorm"}));
}

TEST_F(ReplayTest, AThrowingCallIsDumpedWithoutAResult) {
  StartDumping();
  const HostTensor x(DType::kF32, {2, 12});
  HostTensor wrong(DType::kF32, {2, 5});
  EXPECT_THROW(SiluAndMul(x, wrong), Error);
  CallSiluAndMul();
  const auto folders = Folders();
  ASSERT_EQ(folders.size(), 2U);
  EXPECT_FALSE(fs::exists(folders[0] / "return.json"));
  EXPECT_TRUE(fs::exists(folders[1] / "return.json"));
}

}  // namespace
}  // namespace flashinfer::test
