// SPDX-License-Identifier: Apache-2.0
// Hashes of bytes, by xxhash and mbedTLS.
#include "jit/hash.h"

#include <fmt/format.h>
#include <mbedtls/sha256.h>

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>
#undef XXH_INLINE_ALL

namespace flashinfer::jit {

std::string Hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string Sha256(std::string_view bytes) {
  std::array<unsigned char, 32> hash{};
  mbedtls_sha256_ret(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     hash.data(), 0);
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

}  // namespace flashinfer::jit
