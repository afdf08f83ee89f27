// SPDX-License-Identifier: Apache-2.0
// Running other programs, without a shell.
#pragma once

#include <string>
#include <vector>

namespace flashinfer::cli {

struct Finished {
  int exit_code = -1;  ///< 127 when the program is not there; 128 + the signal that ended it
  std::string out;     ///< standard output; standard error goes where ours goes
};

/// Runs `words[0]` with the rest as its arguments; looked for in PATH.
Finished RunProgram(const std::vector<std::string>& words);

}  // namespace flashinfer::cli
