// SPDX-License-Identifier: Apache-2.0
// Hashes of bytes, by xxhash.
#include "jit/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#undef XXH_INLINE_ALL

namespace flashinfer::jit {

std::string Hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace flashinfer::jit
