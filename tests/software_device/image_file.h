// SPDX-License-Identifier: Apache-2.0
// How a compiled unit travels through the library, which takes it for a CUBIN.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace flashinfer::software_device {

/// Before the bytes of a shared object, whose size the driver is not told.
struct ImageHeader {
  char magic[8] = {'F', 'I', 'H', 'O', 'S', 'T', '0', '1'};
  uint64_t num_bytes = 0;
  int64_t arch = 0;  ///< that it was compiled for
};

inline std::string WithHeader(const std::string& object, const std::string& arch) {
  ImageHeader header;
  header.num_bytes = object.size();
  header.arch = std::stoi(arch);
  std::string image(sizeof(header), '\0');
  std::memcpy(image.data(), &header, sizeof(header));
  return image + object;
}

/// Null for what is no image.
inline const ImageHeader* ImageHeaderOf(const void* code) {
  const ImageHeader expected;
  const bool is_image = std::memcmp(code, expected.magic, sizeof(expected.magic)) == 0;
  return is_image ? static_cast<const ImageHeader*>(code) : nullptr;
}

/// A handle of dlopen(), or null.
inline void* OpenImage(const ImageHeader& header) {
  std::string path = (std::filesystem::temp_directory_path() / "flashinfer-image-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  const char* bytes = reinterpret_cast<const char*>(&header) + sizeof(header);
  const bool is_written =
      write(file, bytes, header.num_bytes) == static_cast<ssize_t>(header.num_bytes);
  void* handle = is_written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  close(file);
  unlink(path.c_str());
  return handle;
}

}  // namespace flashinfer::software_device
