// SPDX-License-Identifier: Apache-2.0
// Packs: read-only archives of the kernels of one architecture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/binary.h"
#include "jit/key.h"

namespace flashinfer::jit {

/// A kernel of a pack, as its index describes it.
struct PackItem {
  std::string_view digest;
  std::string_view spec;
  Resources resources;
  uint64_t offset = 0;  ///< of its Zstandard frame, from the first one
  uint64_t packed_bytes = 0;
  uint64_t cubin_bytes = 0;
  std::string_view sha256;  ///< of the CUBIN
};

/// A pack that is mapped into memory. The file is text down to an empty line (magic, target,
/// compiler, one line a kernel sorted by digest, hash of all this), then one Zstandard frame a
/// kernel. It is the same to the byte for the same kernels.
class Pack {
 public:
  /// Throws kIo when the file cannot be read or is no undamaged pack; frames are not looked at.
  static std::shared_ptr<const Pack> Open(const std::string& path);
  ~Pack();
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;

  const std::string& path() const { return path_; }
  std::string_view target() const { return target_; }      ///< `sm_90a`
  std::string_view compiler() const { return compiler_; }  ///< `nvrtc-13.0`
  const std::vector<PackItem>& items() const { return items_; }
  size_t file_bytes() const { return bytes_.size(); }

  /// Null when it is not here.
  const PackItem* Find(std::string_view digest) const;
  /// Throws kIo when the kernel is damaged.
  Binary Unpack(const PackItem& item) const;

 private:
  Pack(std::string path, std::string_view bytes) : path_(std::move(path)), bytes_(bytes) {}
  void ReadIndex();
  [[noreturn]] void ThrowDamaged(std::string_view what) const;

  std::string path_;
  std::string_view bytes_;  // mapped
  std::string_view target_;
  std::string_view compiler_;
  std::string_view frames_;
  std::vector<PackItem> items_;
};

/// What goes into a pack.
struct PackedKernel {
  std::string digest;
  std::string spec;
  Binary binary;
};

/// `flashinfer-sm90a.pack`.
std::string PackFileName(Target target);

/// Writes aside and renames; throws kIo.
void WritePack(const std::string& path, Target target, std::vector<PackedKernel> kernels);

}  // namespace flashinfer::jit
