// SPDX-License-Identifier: Apache-2.0
// What a command shows beside its result: the closing table, a progress bar, Ctrl-C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashinfer::cli {

/// From here on the first Ctrl-C is noticed, the second ends the process.
void CatchInterrupt();
bool Interrupted();

/// VmHWM: the largest resident memory so far.
double PeakMemoryMib();

/// Lines of a name and a value, to stderr.
class Table {
 public:
  void Add(std::string name, std::string value);
  void Print() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// A bar on stderr, where that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(int64_t total);
  ~ProgressBar();
  /// `note` follows the bar.
  void Show(int64_t done, std::string_view note);

 private:
  int64_t total_;
  bool is_terminal_;
  std::string shown_;
};

/// `num_tokens` per second of `seconds`, 0 when nothing happened.
double Rate(int64_t num_tokens, double seconds);

}  // namespace flashinfer::cli
