// SPDX-License-Identifier: Apache-2.0
// Where the library keeps files: compiled kernels and packs.
#pragma once

#include <string>

namespace flashinfer::jit {

/// FLASHINFER_CACHE_DIR, or .cache/flashinfer under FLASHINFER_WORKSPACE_BASE, or flashinfer under
/// XDG_CACHE_HOME, or .cache/flashinfer under HOME; a folder of /tmp for the user when nothing is
/// set. A program may set another.
std::string CacheFolder();
/// Empty: back to the environment's.
void SetCacheFolder(const std::string& folder);

/// Its folder of compiled kernels.
std::string KernelCacheFolder();
/// Its folder of packs.
std::string PackFolder();

}  // namespace flashinfer::jit
