// SPDX-License-Identifier: Apache-2.0
// Finds folders of Python packages without running Python.
#include "jit/python_packages.h"

#include <dlfcn.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <system_error>

#include "core/env.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;

void Add(const fs::path& folder, std::vector<fs::path>& folders) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
}

void AddPython(const fs::path& prefix, std::vector<fs::path>& folders) {
  for (const fs::path& python : FoldersIn(prefix / "lib", "python3")) {
    Add(python / "site-packages", folders);
    Add(python / "dist-packages", folders);
  }
}

void AddOwn(std::vector<fs::path>& folders) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&FoldersIn), &info) == 0) return;
  for (fs::path at = fs::path(info.dli_fname).parent_path(); at.has_relative_path();
       at = at.parent_path()) {
    if (at.filename() == "site-packages" || at.filename() == "dist-packages") Add(at, folders);
  }
}

void AddPythonOfPath(std::vector<fs::path>& folders) {
  std::istringstream path(GetEnv().path);
  for (std::string bin; std::getline(path, bin, ':');) {
    std::error_code error;
    if (!fs::exists(fs::path(bin) / "python3", error)) continue;
    AddPython(fs::path(bin).parent_path(), folders);
    return;
  }
}

}  // namespace

std::vector<fs::path> FoldersIn(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::vector<fs::path> PythonPackageFolders() {
  std::vector<fs::path> folders;
  AddOwn(folders);
  if (!GetEnv().virtual_env.empty()) AddPython(GetEnv().virtual_env, folders);
  AddPythonOfPath(folders);
  return folders;
}

}  // namespace flashinfer::jit
