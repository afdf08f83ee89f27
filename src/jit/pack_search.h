// SPDX-License-Identifier: Apache-2.0
// The packs that kernels are looked for in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/pack.h"

namespace flashinfer::jit {

/// A pack, or a folder of them, to look in before all others.
void AddPackPath(const std::string& path);

/// Files and folders that are looked in, in order: those that were added, FLASHINFER_PACKS, the
/// cache folder's `packs`, and the folders `packs` of installed wheels.
std::vector<std::string> PackPaths();

/// The readable packs there for `target`. Each is opened once; a damaged one is logged once and
/// left out.
std::vector<std::shared_ptr<const Pack>> Packs(Target target);

/// A damaged kernel is logged and counts as missing.
std::optional<Binary> FindInPacks(std::string_view digest, Target target);

}  // namespace flashinfer::jit
