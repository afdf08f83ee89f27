// SPDX-License-Identifier: Apache-2.0
// What the library found out about its surroundings.
#pragma once

#include <string>
#include <vector>

#include "flashinfer/export.h"

namespace flashinfer {

/// One fact, or one switch of the environment with its value.
struct ConfigEntry {
  std::string name;
  std::string value;
  std::string meaning;  ///< of a switch
};

/// Version, threads, instruction set, CUDA devices, compiler, cache, packs, then the switches.
FLASHINFER_API std::vector<ConfigEntry> ConfigEntries();

/// The same as lines ready to print.
FLASHINFER_API std::string ConfigText();

}  // namespace flashinfer
