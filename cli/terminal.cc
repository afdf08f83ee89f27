// SPDX-License-Identifier: Apache-2.0
// Tables and progress on stderr; the interrupt flag.
#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace flashinfer::cli {
namespace {

std::atomic<bool> interrupted{false};

}  // namespace

void CatchInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
  // No restart: a chat that waits for a line is to wake up.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted.load(std::memory_order_relaxed); }

double PeakMemoryMib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

void Table::Add(std::string name, std::string value) {
  rows_.emplace_back(std::move(name), std::move(value));
}

void Table::Print() const {
  size_t width = 0;
  for (const auto& [name, value] : rows_) width = std::max(width, name.size());
  for (const auto& [name, value] : rows_) {
    fmt::print(stderr, "  {:{}}  {}\n", name, width, value);
  }
}

ProgressBar::ProgressBar(int64_t total) : total_(total), is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!shown_.empty()) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::Show(int64_t done, std::string_view note) {
  if (!is_terminal_) return;
  constexpr int64_t kWidth = 30;
  const auto filled = static_cast<size_t>(total_ == 0 ? kWidth : kWidth * done / total_);
  std::string line = fmt::format("\r[{:<{}}] {}/{}  {}\x1b[K", std::string(filled, '='), kWidth,
                                 done, total_, note);
  if (line == shown_) return;
  std::fputs(line.c_str(), stderr);
  shown_ = std::move(line);
}

double Rate(int64_t num_tokens, double seconds) {
  return num_tokens > 0 && seconds > 0 ? static_cast<double>(num_tokens) / seconds : 0;
}

}  // namespace flashinfer::cli
