// SPDX-License-Identifier: Apache-2.0
// `flashinfer show-config`, `collect-env` and `export-compile-commands`.
#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flashinfer/config.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "kernel_commands.h"

namespace flashinfer::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The value of the first line of a file that begins with `name`.
std::string LineOf(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t begin = line.find_first_not_of(" \t:=\"", name.size());
    const size_t end = line.find_last_not_of(" \t\"");
    return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  }
  return "unknown";
}

/// A name that may come again has a list.
Json ConfigJson() {
  Json json = Json::object();
  for (const ConfigEntry& entry : ConfigEntries()) {
    if (entry.name == "pack") {
      json["packs"].push_back(entry.value);
    } else if (entry.name == "threads") {
      json[entry.name] = NumThreads();
    } else if (entry.name == "kernels") {
      json[entry.name] = CachedKernels().size();
    } else {
      json[entry.name] = entry.value;
    }
  }
  return json;
}

}  // namespace

int ShowConfig(const ShowConfigOptions& options) {
  if (options.json) {
    fmt::print("{}\n", ConfigJson().dump(2));
  } else {
    fmt::print("{}", ConfigText());
  }
  return 0;
}

int CollectEnv(const KernelOptions& options) {
  utsname system{};
  uname(&system);
  const Json machine{
      {"system", LineOf("/etc/os-release", "PRETTY_NAME")},
      {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"cpu", LineOf("/proc/cpuinfo", "model name")},
      {"memory", LineOf("/proc/meminfo", "MemTotal")}};
  if (options.json) {
    Json json = machine;
    json["flashinfer"] = ConfigJson();
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  for (const auto& [name, value] : machine.items()) {
    fmt::print("{:<9}{}\n", name, value.get<std::string>());
  }
  fmt::print("{}", ConfigText());
  return 0;
}

int ExportCompileCommands(const KernelOptions& options) {
  const std::string root = std::filesystem::current_path().string();
  Json all = Json::array();
  for (const KernelFamilyInfo& family : KernelFamilies()) {
    const std::string file = "src/" + family.header;
    if (!std::filesystem::exists(file)) {
      throw Error(ErrorKind::kIo, fmt::format("{}/{}: is not there; run this in the folder of "
                                              "flashinfer's source",
                                              root, file));
    }
    all.push_back({{"directory", root},
                   {"file", file},
                   {"arguments",
                    {"clang++", "-xcuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90a",
                     "-std=c++20", "-Isrc", "-Iinclude", "-include", "cstdint", "-c", file}}});
  }
  const std::string text = all.dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream file(options.output, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(ErrorKind::kIo, options.output + ": cannot be written");
  return 0;
}

}  // namespace flashinfer::cli
