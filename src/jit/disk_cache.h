// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, one file each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/binary.h"
#include "jit/key.h"

namespace flashinfer::jit {

/// A kernel as a file describes it.
struct CacheEntry {
  std::string path;
  std::string spec;
  std::string target;
  size_t file_bytes = 0;
  Binary binary;
};

/// A folder of `DIGEST.COMPILER.kernel` files.
///
/// A file is written aside, synced and renamed, so that a reader sees all of it or nothing, and is
/// checked (magic, size, hash, target) before it is used; a damaged one is removed, logged and
/// treated as missing. Nothing here throws: a folder that cannot be written costs one warning, a
/// cache is never needed. Readers take no lock.
class DiskCache {
 public:
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  /// `compiler` empty: of any compiler.
  std::optional<Binary> Load(const std::string& digest, Target target,
                             const std::string& compiler) const;

  void Save(const std::string& digest, Target target, const std::string& spec,
            const Binary& binary) const;

  /// Every readable entry, for listings.
  std::vector<CacheEntry> List() const;

  /// Removes entries, locks, and what was left aside; returns how many files.
  int64_t Clear() const;

  /// Where the source of a unit that did not compile was left; empty when it could not be.
  std::string LeaveSource(const std::string& digest, const std::string& source) const;

 private:
  std::optional<Binary> LoadFile(const std::string& path, Target target) const;

  std::string folder_;
};

/// Keeps other processes from compiling the same kernel, for as long as it lives. Only saves work:
/// when the lock cannot be had in time or at all, its owner goes on without.
class CompileLock {
 public:
  CompileLock(const std::string& folder, const std::string& digest);
  ~CompileLock();
  CompileLock(const CompileLock&) = delete;
  CompileLock& operator=(const CompileLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace flashinfer::jit
