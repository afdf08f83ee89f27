// SPDX-License-Identifier: Apache-2.0
// The command line tool on a terminal: a chat, and Ctrl-C.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>

#include <array>
#include <csignal>

#include "cli_fixture.h"

namespace flashinfer::test {
namespace {

/// The tool behind a pseudo terminal: what it prints is read, what is written it takes as typed.
class Terminal {
 public:
  explicit Terminal(const std::string& words) {
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      const std::string command = "exec '" FLASHINFER_CLI "' " + words;
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Terminal() {
    if (exit_code_ < 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void Type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Reads until `text` has been shown since the last call; false after a minute or at the end.
  bool Await(const std::string& text) {
    for (;;) {
      const size_t at = shown_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (!Read()) return false;
    }
  }
  /// Reads to the end; the exit code, or -1 when a signal ended it.
  int Finish() {
    while (Read()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (exit_code_ < 0) exit_code_ = 1000;
    return exit_code_;
  }
  const std::string& shown() const { return shown_; }

 private:
  bool Read() {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 60000) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = read(fd_, buffer.data(), buffer.size());
    if (n <= 0) return false;  // EIO: the tool has gone
    shown_.append(buffer.data(), static_cast<size_t>(n));
    return true;
  }

  pid_t pid_ = -1;
  int fd_ = -1;
  int exit_code_ = -1;
  std::string shown_;
  size_t seen_ = 0;
};

using TerminalTest = CliTest;

TEST_F(TerminalTest, AChatAnswersLineByLineAndEndsWithTheTable) {
  Terminal terminal("generate --max-tokens 5 --ignore-eos --model '" + model_ + "'");
  ASSERT_TRUE(terminal.Await("> ")) << terminal.shown();
  terminal.Type("hello\n");
  ASSERT_TRUE(terminal.Await("hello\r\n"));  // the echo, then the answer, then the next prompt
  ASSERT_TRUE(terminal.Await("\r\n> ")) << terminal.shown();
  terminal.Type("and more\n");
  ASSERT_TRUE(terminal.Await("\r\n> ")) << terminal.shown();
  terminal.Type("\004");  // Ctrl-D
  EXPECT_EQ(terminal.Finish(), 0) << terminal.shown();
  EXPECT_NE(terminal.shown().find("10 tokens"), std::string::npos) << terminal.shown();
}

TEST_F(TerminalTest, AChatOutlivesALineThatIsTooLong) {
  Terminal terminal("generate --max-tokens 5 --ignore-eos --model '" + model_ + "'");
  ASSERT_TRUE(terminal.Await("> ")) << terminal.shown();
  terminal.Type(std::string(300, 'z') + "\n");  // the tiny model's context is 256 tokens
  ASSERT_TRUE(terminal.Await("flashinfer: ")) << terminal.shown();
  ASSERT_TRUE(terminal.Await("> ")) << terminal.shown();
  terminal.Type("hello\n\n");
  EXPECT_EQ(terminal.Finish(), 0) << terminal.shown();
  EXPECT_NE(terminal.shown().find("5 tokens"), std::string::npos) << terminal.shown();
}

TEST_F(TerminalTest, CtrlCEndsWithTheTableAnd130) {
  const std::string model = DataFile("stories260K/stories260K.bin").string();
  FLASHINFER_SKIP_WITHOUT(model);
  // Long enough that it cannot end by itself before the keys are pressed.
  std::string prompts;
  for (int i = 0; i < 64; ++i) prompts += " --prompt 'Once upon a time'";
  Terminal terminal("generate --raw --ignore-eos --max-tokens 500 --model '" + model + "'" +
                    prompts);
  ASSERT_TRUE(terminal.Await("there")) << terminal.shown();
  terminal.Type("\003");
  EXPECT_EQ(terminal.Finish(), 130) << terminal.shown();
  EXPECT_NE(terminal.shown().find("first token"), std::string::npos) << terminal.shown();
}

}  // namespace
}  // namespace flashinfer::test
