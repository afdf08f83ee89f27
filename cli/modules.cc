// SPDX-License-Identifier: Apache-2.0
// What there is of kernels: families, the cache, packs; and removing it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "flashinfer/pack.h"
#include "kernel_commands.h"

namespace flashinfer::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The first word of a spec.
std::string FamilyOf(const std::string& spec) { return spec.substr(0, spec.find(' ')); }

/// A compiled kernel, wherever it is.
struct Found {
  std::string spec;
  std::string arch;
  std::string compiler;
  std::string where;
};

std::vector<Found> FindAll() {
  std::vector<Found> all;
  for (const CachedKernel& k : CachedKernels()) {
    all.push_back({k.spec, k.arch, k.compiler, k.path});
  }
  for (const std::string& path : FindPacks()) {
    const PackInfo pack = ReadPack(path);
    for (const PackEntry& k : pack.entries) all.push_back({k.spec, pack.arch, pack.compiler, path});
  }
  return all;
}

void PrintRow(std::string_view name, std::string_view value) {
  fmt::print("{:<26}{}\n", name, value);
}

}  // namespace

int ListModules(const KernelOptions& options) {
  Json all = Json::array();
  bool is_known = options.name.empty();
  std::string names;
  for (const KernelFamilyInfo& family : KernelFamilies()) {
    names += (names.empty() ? "" : ", ") + family.name;
    if (!options.name.empty() && options.name != family.name) continue;
    is_known = true;
    all.push_back({{"name", family.name},
                   {"header", family.header},
                   {"min_arch", family.min_arch},
                   {"example", family.example}});
    if (options.json) continue;
    if (options.name.empty()) {
      PrintRow(family.name, fmt::format("SM{} and later", family.min_arch));
    } else {
      fmt::print("{}\n  header   src/{}\n  arch     SM{} and later\n  example  {}\n", family.name,
                 family.header, family.min_arch, family.example);
    }
  }
  if (!is_known) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("name: '{}' is not one of {}", options.name, names));
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int ModuleStatus(const KernelOptions& options) {
  struct Count {
    int64_t cached = 0;
    int64_t packed = 0;
  };
  std::map<std::string, Count> counts;
  for (const KernelFamilyInfo& family : KernelFamilies()) counts[family.name];
  for (const Found& found : FindAll()) {
    Count& count = counts[FamilyOf(found.spec)];
    ++(found.where.ends_with(".pack") ? count.packed : count.cached);
  }
  Json all = Json::array();
  int64_t num_compiled = 0;
  if (!options.json) fmt::print("{:<26}{:>8}{:>8}\n", "family", "cache", "packs");
  for (const auto& [name, count] : counts) {
    const bool is_compiled = count.cached + count.packed > 0;
    num_compiled += is_compiled ? 1 : 0;
    if (options.filter == "compiled" && !is_compiled) continue;
    if (options.filter == "not-compiled" && is_compiled) continue;
    all.push_back({{"name", name}, {"cached", count.cached}, {"packed", count.packed}});
    if (!options.json) fmt::print("{:<26}{:>8}{:>8}\n", name, count.cached, count.packed);
  }
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{} families, {} with compiled kernels\n", counts.size(), num_compiled);
  }
  return 0;
}

int ListCubins(const KernelOptions& options) {
  Json all = Json::array();
  for (const Found& found : FindAll()) {
    if (options.json) {
      all.push_back({{"spec", found.spec},
                     {"arch", found.arch},
                     {"compiler", found.compiler},
                     {"where", found.where}});
    } else {
      fmt::print("sm_{:<6}{:<12}{}\n  {}\n", found.arch, found.compiler, found.spec, found.where);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int ClearCache(const KernelOptions& options) {
  const int64_t num_removed = ClearKernelCache();
  if (options.json) {
    fmt::print("{}\n", Json{{"removed", num_removed}, {"folder", CacheFolder()}}.dump(2));
  } else {
    fmt::print("removed {} files of compiled kernels from {}\n", num_removed, CacheFolder());
  }
  return 0;
}

int ClearCubin(const KernelOptions& options) {
  const std::string folder = InstalledPackFolder();
  int64_t num_removed = 0;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    files.push_back(it->path());
  }
  for (const auto& file : files) num_removed += std::filesystem::remove(file, error) ? 1 : 0;
  if (options.json) {
    fmt::print("{}\n", Json{{"removed", num_removed}, {"folder", folder}}.dump(2));
  } else {
    fmt::print("removed {} files from {}\n", num_removed, folder);
  }
  return 0;
}

}  // namespace flashinfer::cli
