// SPDX-License-Identifier: Apache-2.0
// Quoting of what a file holds in an error message.
#include "engine/read_error.h"

namespace flashinfer::engine {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 60;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMaxBytes)) {
    if (c >= 0x20 && c < 0x7f) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + (text.size() > kMaxBytes ? "…'" : "'");
}

}  // namespace flashinfer::engine
