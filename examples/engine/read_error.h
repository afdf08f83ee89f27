// SPDX-License-Identifier: Apache-2.0
// Errors of the file readers: one line, whatever the file holds.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "flashinfer/error.h"

namespace flashinfer::engine {

template <class... Args>
[[noreturn]] void Fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws kInvalidArgument unless `condition` holds.
template <class... Args>
void CheckInput(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) Fail(ErrorKind::kInvalidArgument, format, std::forward<Args>(args)...);
}

/// `text` from a file, in quotes, fit for a message: cut at 60 bytes, and bytes that are no
/// printable ASCII as `\x0a`.
std::string Quoted(std::string_view text);

}  // namespace flashinfer::engine
