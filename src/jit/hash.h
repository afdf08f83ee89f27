// SPDX-License-Identifier: Apache-2.0
// Hashes of bytes: XXH3 for keys and torn files, SHA-256 for what travels.
#pragma once

#include <string>
#include <string_view>

namespace flashinfer::jit {

/// XXH3-128 as 32 hexadecimal digits.
std::string Hash128(std::string_view bytes);

/// SHA-256 as 64 hexadecimal digits.
std::string Sha256(std::string_view bytes);

}  // namespace flashinfer::jit
