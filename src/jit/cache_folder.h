// SPDX-License-Identifier: Apache-2.0
// Where the library keeps files: compiled kernels and packs.
#pragma once

#include <string>

namespace flashinfer::jit {

/// FLASHINFER_CACHE_DIR, or .cache/flashinfer under FLASHINFER_WORKSPACE_BASE, or flashinfer under
/// XDG_CACHE_HOME, or .cache/flashinfer under HOME; OwnFolder() of /tmp/flashinfer-UID when nothing
/// is set, so possibly empty: there is none then. A program may set another.
std::string CacheFolder();
/// Empty: back to the environment's.
void SetCacheFolder(const std::string& folder);

/// `folder`, made where it is not there; empty, with one line in the log, where another user could
/// have put files that this one would load: a link, another's folder, or one that others can write.
std::string OwnFolder(const std::string& folder);

/// Its folder of compiled kernels; empty where there is none.
std::string KernelCacheFolder();
/// Its folder of packs; empty where there is none.
std::string PackFolder();

}  // namespace flashinfer::jit
