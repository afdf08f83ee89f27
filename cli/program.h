// SPDX-License-Identifier: Apache-2.0
// What the project's programs have in common: errors become a line and an exit code.
#pragma once

namespace flashinfer::cli {

/// What main() returns: the exit code of `run`, or of the error that it throws.
int RunAsProgram(int (*run)(int, char**), int argc, char** argv);

}  // namespace flashinfer::cli
