// SPDX-License-Identifier: Apache-2.0
// Chooses the cache folder.
#include "jit/cache_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <mutex>

#include "core/env.h"

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
  return fmt::format("/tmp/flashinfer-{}", getuid());
}

}  // namespace

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

std::string KernelCacheFolder() { return CacheFolder() + "/kernels"; }
std::string PackFolder() { return CacheFolder() + "/packs"; }

}  // namespace flashinfer::jit
