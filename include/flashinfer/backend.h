// SPDX-License-Identifier: Apache-2.0
// Which backend runs a problem, and why the others do not.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flashinfer/export.h"

namespace flashinfer {

/// Which backends an operator may take. The name is `auto`, a backend (`cpu`, `cuda`), or one
/// candidate (`cpu.avx2`); a name that no candidate has throws kInvalidArgument.
class Backend {
 public:
  constexpr Backend() = default;
  constexpr explicit Backend(std::string_view name) : name_(name) {}
  constexpr std::string_view name() const { return name_; }
  constexpr bool is_auto() const { return name_ == "auto"; }

 private:
  std::string_view name_ = "auto";
};

/// One candidate's answer to a problem.
struct Verdict {
  std::string candidate;  ///< `cpu.avx512`
  bool accepted = false;
  std::string reason;  ///< why not, when refused
};

/// What Explain() of an operator returns: candidates in the order in which they are asked; the
/// first accepted one runs.
struct Explanation {
  std::string problem;  ///< text form, `norm dtype=bf16 hidden_size=576 …`
  std::vector<Verdict> verdicts;
  std::string note;  ///< why no device here could run it, whoever takes it; empty: nothing to say

  /// The candidate that runs the problem, null when all refuse.
  const Verdict* chosen() const {
    for (const Verdict& v : verdicts) {
      if (v.accepted) return &v;
    }
    return nullptr;
  }
};

/// A table of one line per candidate, ready to print.
FLASHINFER_API std::string Text(const Explanation& explanation);

/// Explains a problem given in its text form; fields left out keep their defaults. With an `arch`
/// that no device here has it tells what such a device would do, and notes that. Throws
/// kInvalidArgument that lists the operators or the fields when the text names none of them, and
/// for a value that no call could have.
FLASHINFER_API Explanation Explain(std::string_view problem);

/// An operator, and its candidates that the process has chosen so far.
struct OpBackends {
  std::string op;
  std::vector<std::string> candidates;
};

/// The operators that have been called or planned so far, and who ran them.
FLASHINFER_API std::vector<OpBackends> ChosenBackends();

/// A Markdown table of problems of every operator and the candidates that take them, the same on
/// every machine.
FLASHINFER_API std::string SupportMatrix();

}  // namespace flashinfer
