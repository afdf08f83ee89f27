// SPDX-License-Identifier: Apache-2.0
// Finds packs, and kernels in them.
#include "jit/pack_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "core/env.h"
#include "core/log.h"
#include "flashinfer/error.h"
#include "jit/cache_folder.h"
#include "jit/python_packages.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;

/// Packages of wheels that carry packs.
constexpr std::array<std::string_view, 2> kWheelPackages{"flashinfer_jit_cache",
                                                         "flashinfer_cubin"};

struct State {
  std::mutex mutex;
  std::vector<std::string> added;
  std::map<std::string, std::shared_ptr<const Pack>> opened;  // null: damaged
};

State& GetState() {
  static State& state = *new State;
  return state;
}

std::shared_ptr<const Pack> OpenOnce(const std::string& path) {
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  const auto [at, is_inserted] = state.opened.try_emplace(path);
  if (is_inserted) {
    try {
      at->second = Pack::Open(path);
    } catch (const Error& error) {
      LogLine(fmt::format("pack {}; left out", error.what()));
    }
  }
  return at->second;
}

/// The packs that a path stands for: itself, or those in the folder, by name.
std::vector<std::string> FilesAt(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return fs::exists(path, error) ? std::vector<std::string>{path} : std::vector<std::string>{};
  }
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".pack") files.push_back(it->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void AddPackPath(const std::string& path) {
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  state.added.push_back(path);
}

std::vector<std::string> PackPaths() {
  std::vector<std::string> paths;
  {
    State& state = GetState();
    const std::lock_guard lock(state.mutex);
    paths = state.added;
  }
  static std::atomic<bool> has_looked{false};
  const bool is_first = !has_looked.exchange(true);
  std::istringstream listed(GetEnv().packs);
  for (std::string path; std::getline(listed, path, ':');) {
    std::error_code error;
    if (is_first && !path.empty() && !fs::exists(path, error)) {
      LogLine(fmt::format("FLASHINFER_PACKS: '{}' is not there; ignored", path));
    }
    if (!path.empty()) paths.push_back(path);
  }
  paths.push_back(PackFolder());
  for (const fs::path& folder : PythonPackageFolders()) {
    for (std::string_view package : kWheelPackages) {
      paths.push_back((folder / package / "packs").string());
    }
  }
  return paths;
}

std::vector<std::shared_ptr<const Pack>> Packs(Target target) {
  std::vector<std::shared_ptr<const Pack>> packs;
  for (const std::string& path : PackPaths()) {
    for (const std::string& file : FilesAt(path)) {
      std::shared_ptr<const Pack> pack = OpenOnce(file);
      if (pack != nullptr && pack->target() == "sm_" + Name(target)) packs.push_back(pack);
    }
  }
  return packs;
}

std::optional<Binary> FindInPacks(std::string_view digest, Target target) {
  for (const std::shared_ptr<const Pack>& pack : Packs(target)) {
    const PackItem* item = pack->Find(digest);
    if (item == nullptr) continue;
    try {
      return pack->Unpack(*item);
    } catch (const Error& error) {
      LogLine(fmt::format("pack {}; the kernel is taken from elsewhere", error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace flashinfer::jit
