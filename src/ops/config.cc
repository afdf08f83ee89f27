// SPDX-License-Identifier: Apache-2.0
// Collects the library's configuration.
#include "flashinfer/config.h"

#include <fmt/format.h>

#include "core/env.h"
#include "cuda/device.h"
#include "flashinfer/cpu.h"
#include "flashinfer/jit.h"
#include "flashinfer/pack.h"
#include "flashinfer/version.h"

namespace flashinfer {
namespace {

void AddDevices(std::vector<ConfigEntry>& entries) {
  std::string why;
  if (!cuda::Available(&why)) {
    entries.push_back({"cuda", why, ""});
    return;
  }
  for (int32_t i = 0; i < cuda::NumDevices(); ++i) {
    const Device device{DeviceType::kCuda, i};
    const cuda::DeviceProperties& p = cuda::Properties(device);
    entries.push_back({Name(device),
                       fmt::format("{}, SM{}, {} multiprocessors, {} MiB", p.name, p.arch,
                                   p.num_sms, p.memory_bytes >> 20),
                       ""});
  }
}

}  // namespace

std::vector<ConfigEntry> ConfigEntries() {
  std::vector<ConfigEntry> entries{{"version", std::string(Version()), ""},
                                   {"threads", std::to_string(NumThreads()), ""},
                                   {"isa", std::string(CpuIsaName()), ""}};
  AddDevices(entries);
  const CompilerInfo compiler = FindCompiler();
  entries.push_back({"compiler",
                     compiler.name.empty() ? compiler.why_not
                                           : fmt::format("{}, {}", compiler.name, compiler.path),
                     ""});
  entries.push_back({"cache", CacheFolder().empty() ? "none" : CacheFolder(), ""});
  entries.push_back({"kernels", fmt::format("{} in the cache", CachedKernels().size()), ""});
  for (const std::string& pack : FindPacks()) entries.push_back({"pack", pack, ""});
  for (const EnvSwitch& env_switch : EnvSwitches()) {
    entries.push_back(
        {std::string(env_switch.name), EnvValue(env_switch), std::string(env_switch.meaning)});
  }
  return entries;
}

std::string ConfigText() {
  std::string text;
  bool is_in_switches = false;
  for (const ConfigEntry& entry : ConfigEntries()) {
    if (entry.meaning.empty()) {
      text += fmt::format("{:<9}{}\n", entry.name, entry.value);
      continue;
    }
    if (!is_in_switches) text += "\nswitches\n";
    is_in_switches = true;
    text += fmt::format("  {:<30}{:<9} {}\n", entry.name,
                        entry.value.empty() ? "unset" : entry.value, entry.meaning);
  }
  return text;
}

}  // namespace flashinfer
