// SPDX-License-Identifier: Apache-2.0
// Collects the library's configuration as text.
#include "flashinfer/config.h"

#include <fmt/format.h>

#include "core/env.h"
#include "flashinfer/cpu.h"
#include "flashinfer/version.h"

namespace flashinfer {

std::string ConfigText() {
  std::string text = fmt::format("version  {}\nthreads  {}\nisa      {}\n\nswitches\n", Version(),
                                 NumThreads(), CpuIsaName());
  for (const EnvSwitch& env_switch : EnvSwitches()) {
    const std::string& value = EnvValue(env_switch);
    text += fmt::format("  {:24}{:10}{}\n", env_switch.name, value.empty() ? "unset" : value,
                        env_switch.meaning);
  }
  return text;
}

}  // namespace flashinfer
