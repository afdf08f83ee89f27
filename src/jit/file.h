// SPDX-License-Identifier: Apache-2.0
// Whole files: read, mapped, and written so that a reader sees all of a file or nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flashinfer::jit {

/// Empty when it cannot be opened.
std::optional<std::string> ReadFile(const std::string& path);

/// Writes aside, syncs and renames. False with errno set; nothing is left behind.
bool WriteFileAside(const std::string& path, std::string_view bytes);

/// False with errno set.
bool MakeFolders(const std::string& folder);

}  // namespace flashinfer::jit
