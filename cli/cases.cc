// SPDX-License-Identifier: Apache-2.0
// `flashinfer check` and `bench`: another program, which holds the library's inside, cases and
// oracles, so that this one stays small and uses the public headers alone.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "commands.h"
#include "flashinfer/error.h"

namespace flashinfer::cli {

int RunCases(const std::string& command, const std::vector<std::string>& words) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = self.parent_path() / "flashinfer-cases";
  std::vector<std::string> arguments{program, command};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} is another program, which is not there: {}", command, program));
}

}  // namespace flashinfer::cli
