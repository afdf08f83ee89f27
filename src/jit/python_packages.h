// SPDX-License-Identifier: Apache-2.0
// Folders of Python packages, where wheels leave compilers and packs.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace flashinfer::jit {

/// Those that this library is installed among, of the virtual environment, and of the `python3`
/// that a shell would run; each once, that exist.
std::vector<std::filesystem::path> PythonPackageFolders();

/// Folders of `parent` whose name begins with `prefix`, the last name first.
std::vector<std::filesystem::path> FoldersIn(const std::filesystem::path& parent,
                                             std::string_view prefix);

}  // namespace flashinfer::jit
