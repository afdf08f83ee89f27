// SPDX-License-Identifier: Apache-2.0
// One character of UTF-8 at a time, with what is not UTF-8 told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flashinfer::engine {

enum class Utf8Form {
  kValid,
  kInvalid,    ///< these bytes can never begin a character
  kTruncated,  ///< the text ends within a character that more bytes could complete
};

struct Utf8Char {
  int32_t code_point;  ///< -1 unless valid
  int32_t num_bytes;   ///< at least 1; when invalid, the longest run that began as a character
  Utf8Form form;
};

/// The character at `position`, which must be within `text`. As Unicode's table 3-7: overlong
/// forms, surrogates and values above U+10FFFF are invalid.
Utf8Char DecodeUtf8(std::string_view text, size_t position);

/// Appends the form of `code_point`, which must be a character.
void AppendUtf8(int32_t code_point, std::string& text);

}  // namespace flashinfer::engine
