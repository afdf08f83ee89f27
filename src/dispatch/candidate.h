// SPDX-License-Identifier: Apache-2.0
// One way to run an operator, in a list of such ways, fastest first.
#pragma once

#include <string>
#include <string_view>

namespace flashinfer {

/// `Entry` is what the operator needs to run: a function, or a factory of executors.
template <class Problem, class Entry>
struct Candidate {
  /// Backend, dot, how: `cpu.avx512`.
  std::string_view name;
  /// Whether this machine can run it at all. Writes the reason when it cannot and `why` is given.
  bool (*available)(std::string* why);
  /// Whether it takes the problem, on a machine that can run it. Never allocates without `why`.
  bool (*accepts)(const Problem& problem, std::string* why);
  Entry entry;
  /// Problems that a later candidate does better, should it take them: this one then comes last.
  bool (*yields)(const Problem& problem) = nullptr;
};

/// For `return Refuse(why, "…")` in `available` and `accepts`.
inline bool Refuse(std::string* why, std::string_view reason) {
  if (why != nullptr) *why = reason;
  return false;
}

}  // namespace flashinfer
