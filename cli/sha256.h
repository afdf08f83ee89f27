// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files.
#pragma once

#include <string>

namespace flashinfer::cli {

/// 64 hexadecimal digits; throws kIo when the file cannot be read.
std::string Sha256OfFile(const std::string& path);

}  // namespace flashinfer::cli
