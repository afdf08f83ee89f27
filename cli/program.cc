// SPDX-License-Identifier: Apache-2.0
// Turns errors into lines and exit codes.
#include "program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "exit_codes.h"
#include "flashinfer/error.h"

namespace flashinfer::cli {
namespace {

int ExitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kUnsupported:
      return 3;
    case ErrorKind::kCompile:
      return 4;
    case ErrorKind::kDevice:
      return 5;
    case ErrorKind::kIo:
      return 6;
    case ErrorKind::kInternal:
      break;
  }
  return 70;
}

/// What is still buffered must have arrived before the command counts as done.
int FlushOutput(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  throw Error(ErrorKind::kIo, "standard output: cannot be written");
}

}  // namespace

int RunAsProgram(int (*run)(int, char**), int argc, char** argv) {
  try {
    return FlushOutput(run(argc, argv));
  } catch (const Error& error) {
    fmt::print(stderr, "flashinfer: {}\n", error.what());
    return ExitCode(error.kind());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "flashinfer: out of memory\n");
    return ExitCode(ErrorKind::kDevice);
  } catch (const std::exception& error) {
    fmt::print(stderr, "flashinfer: this is a bug: {}\n", error.what());
    return ExitCode(ErrorKind::kInternal);
  }
}

}  // namespace flashinfer::cli
