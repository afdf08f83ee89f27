// SPDX-License-Identifier: Apache-2.0
// The bytes of a model file, mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace flashinfer::engine {

/// Bytes that stay where they are as long as the object, or one moved from it, lives. A file that
/// another process shortens meanwhile ends this one (SIGBUS), as with every mapping.
class MappedFile {
 public:
  /// Throws kIo, with the system's words, when `path` is no readable regular file.
  static MappedFile Open(const std::string& path);
  /// A copy of `bytes` in memory; `name` takes the path's place in messages.
  static MappedFile FromBytes(std::string name, std::span<const uint8_t> bytes);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& name() const { return name_; }
  /// Begins at a multiple of the page size.
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

  /// Takes the pages that lie wholly in `range` out of resident memory; they are read again when
  /// they are touched again. Does nothing for bytes that are no file.
  void ReleasePages(std::span<const uint8_t> range) const;

 private:
  MappedFile(std::string name, const uint8_t* data, size_t size, bool is_file)
      : name_(std::move(name)), data_(data), size_(size), is_file_(is_file) {}

  std::string name_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  bool is_file_ = false;
};

}  // namespace flashinfer::engine
