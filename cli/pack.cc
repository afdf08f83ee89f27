// SPDX-License-Identifier: Apache-2.0
// `flashinfer pack list`, `verify` and `install`.
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "flashinfer/pack.h"
#include "kernel_commands.h"

namespace flashinfer::cli {
namespace {

using Json = nlohmann::ordered_json;

Json PackJson(const PackInfo& pack) {
  Json kernels = Json::array();
  for (const PackEntry& k : pack.entries) {
    kernels.push_back({{"spec", k.spec},
                       {"digest", k.digest},
                       {"sha256", k.sha256},
                       {"cubin_bytes", k.cubin_bytes},
                       {"packed_bytes", k.packed_bytes},
                       {"registers", k.num_registers},
                       {"spill_store_bytes", k.spill_store_bytes},
                       {"current", k.is_current}});
  }
  return {{"path", pack.path},
          {"arch", pack.arch},
          {"compiler", pack.compiler},
          {"bytes", pack.file_bytes},
          {"kernels", kernels}};
}

void PrintPack(const PackInfo& pack) {
  int64_t num_stale = 0;
  for (const PackEntry& k : pack.entries) num_stale += k.is_current ? 0 : 1;
  fmt::print("{}: sm_{}, {}, {} kernels, {} B\n", pack.path, pack.arch, pack.compiler,
             pack.entries.size(), pack.file_bytes);
  for (const PackEntry& k : pack.entries) {
    fmt::print("  {:>8} B  {}{}\n", k.packed_bytes, k.spec,
               k.is_current ? "" : "  (of another version)");
  }
  if (num_stale > 0) {
    fmt::print("  {} kernels are of another version: this library does not use them\n", num_stale);
  }
}

}  // namespace

int PackList(const KernelOptions& options) {
  Json all = Json::array();
  for (const std::string& path : options.packs.empty() ? FindPacks() : options.packs) {
    const PackInfo pack = ReadPack(path);
    if (options.json) {
      all.push_back(PackJson(pack));
    } else {
      PrintPack(pack);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int PackVerify(const KernelOptions& options) {
  Json all = Json::array();
  for (const std::string& path : options.packs) {
    VerifyPack(path);
    if (options.json) {
      all.push_back({{"path", path}, {"verified", true}});
    } else {
      fmt::print("{}: in order\n", path);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int PackInstall(const KernelOptions& options) {
  Json all = Json::array();
  for (const std::string& path : options.packs) {
    const std::string installed = InstallPack(path);
    if (options.json) {
      all.push_back({{"path", path}, {"installed", installed}});
    } else {
      fmt::print("installed {}\n", installed);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace flashinfer::cli
