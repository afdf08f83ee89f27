// SPDX-License-Identifier: Apache-2.0
// Packs: kernels that were compiled ahead, one file an architecture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/export.h"
#include "flashinfer/jit.h"

namespace flashinfer {

/// A kernel of a pack.
struct PackEntry {
  std::string spec;
  std::string digest;  ///< of spec, device code, architecture and compiler options
  std::string sha256;  ///< of the CUBIN
  size_t cubin_bytes = 0;
  size_t packed_bytes = 0;
  int32_t num_registers = -1;
  int32_t spill_store_bytes = -1;
  bool is_current = false;  ///< whether this library would use it: its device code is the same
};

struct PackInfo {
  std::string path;
  std::string arch;      ///< `90a`
  std::string compiler;  ///< `nvrtc-13.0`
  size_t file_bytes = 0;
  std::vector<PackEntry> entries;
};

/// Reads the index; throws kIo when the file cannot be read or is damaged.
FLASHINFER_API PackInfo ReadPack(std::string_view path);

/// Unpacks every kernel and compares its SHA-256; throws kIo that names the first damaged one.
FLASHINFER_API void VerifyPack(std::string_view path);

/// Writes `FOLDER/flashinfer-sm90a.pack` and returns its path. The same kernels give the same
/// bytes. All must be of one architecture. Throws kIo.
FLASHINFER_API std::string WritePack(std::string_view folder,
                                     std::span<const CompiledKernel> kernels);

/// Verifies a pack and copies it to where it is found from now on; returns that path. Throws kIo.
FLASHINFER_API std::string InstallPack(std::string_view path);

/// Looks in a pack, or a folder of them, before all others; for this process.
FLASHINFER_API void AddPack(std::string_view path);

/// Where an installed pack lies.
FLASHINFER_API std::string InstalledPackFolder();

/// FLASHINFER_CUBINS_REPOSITORY: the URL that packs are downloaded from; empty when unset.
FLASHINFER_API std::string PackRepository();

/// The packs that are found, in the order in which they are looked in. Damaged ones are left out.
FLASHINFER_API std::vector<std::string> FindPacks();

}  // namespace flashinfer
