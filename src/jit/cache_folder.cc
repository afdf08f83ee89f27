// SPDX-License-Identifier: Apache-2.0
// Chooses the cache folder.
#include "jit/cache_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "core/env.h"
#include "core/log.h"

namespace flashinfer::jit {
namespace {

struct Chosen {
  std::mutex mutex;
  std::string folder;
};

Chosen& GetChosen() {
  static Chosen& chosen = *new Chosen;
  return chosen;
}

std::string FromEnvironment() {
  const Env& env = GetEnv();
  if (!env.cache_dir.empty()) return env.cache_dir;
  if (!env.workspace_base.empty()) return env.workspace_base + "/.cache/flashinfer";
  if (!env.xdg_cache_home.empty()) return env.xdg_cache_home + "/flashinfer";
  if (!env.home.empty()) return env.home + "/.cache/flashinfer";
  return OwnFolder(fmt::format("/tmp/flashinfer-{}", getuid()));
}

}  // namespace

std::string OwnFolder(const std::string& folder) {
  mkdir(folder.c_str(), 0700);
  struct stat status {};
  if (lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid() &&
      (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return folder;
  }
  static std::atomic<bool> has_warned{false};
  if (!has_warned.exchange(true)) {
    LogLine(
        fmt::format("kernel cache {}: is not a folder that this user alone can write to; "
                    "compiled kernels are kept in memory alone",
                    folder));
  }
  return "";
}

std::string CacheFolder() {
  Chosen& chosen = GetChosen();
  const std::lock_guard lock(chosen.mutex);
  return chosen.folder.empty() ? FromEnvironment() : chosen.folder;
}

void SetCacheFolder(const std::string& folder) {
  Chosen& chosen = GetChosen();
  const std::lock_guard lock(chosen.mutex);
  chosen.folder = folder;
}

namespace {

std::string Inside(std::string_view name) {
  const std::string folder = CacheFolder();
  return folder.empty() ? "" : fmt::format("{}/{}", folder, name);
}

}  // namespace

std::string KernelCacheFolder() { return Inside("kernels"); }
std::string PackFolder() { return Inside("packs"); }

}  // namespace flashinfer::jit
