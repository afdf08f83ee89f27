// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files, by mbedTLS.
#include "sha256.h"

#include <mbedtls/sha256.h>

#include <array>
#include <fstream>

#include <fmt/format.h>

#include "flashinfer/error.h"

namespace flashinfer::cli {

std::string Sha256OfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  mbedtls_sha256_context context;
  mbedtls_sha256_init(&context);
  mbedtls_sha256_starts_ret(&context, 0);
  std::array<char, 65536> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    mbedtls_sha256_update_ret(&context, reinterpret_cast<const unsigned char*>(buffer.data()),
                              static_cast<size_t>(file.gcount()));
  }
  std::array<unsigned char, 32> hash{};
  mbedtls_sha256_finish_ret(&context, hash.data());
  mbedtls_sha256_free(&context);
  if (!file.eof()) throw Error(ErrorKind::kIo, path + ": cannot be read");
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

}  // namespace flashinfer::cli
