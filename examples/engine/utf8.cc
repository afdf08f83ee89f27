// SPDX-License-Identifier: Apache-2.0
// Decoding of one UTF-8 character.
#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

/// The range of a second byte after `lead`; narrower than 0x80..0xBF where the full range would
/// allow overlong forms, surrogates or values above U+10FFFF.
struct SecondByte {
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

SecondByte SecondByteAfter(uint8_t lead) {
  switch (lead) {
    case 0xE0:
      return {.low = 0xA0};
    case 0xED:
      return {.high = 0x9F};
    case 0xF0:
      return {.low = 0x90};
    case 0xF4:
      return {.high = 0x8F};
    default:
      return {};
  }
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, size_t position) {
  const auto lead = static_cast<uint8_t>(text[position]);
  if (lead < 0x80) return {lead, 1, Utf8Form::kValid};
  if (lead < 0xC2 || lead > 0xF4) return {-1, 1, Utf8Form::kInvalid};
  const int32_t num_bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  int32_t code_point = lead & (0x7F >> num_bytes);
  SecondByte range = SecondByteAfter(lead);
  for (int32_t i = 1; i < num_bytes; ++i) {
    if (position + i >= text.size()) return {-1, i, Utf8Form::kTruncated};
    const auto byte = static_cast<uint8_t>(text[position + i]);
    if (byte < range.low || byte > range.high) return {-1, i, Utf8Form::kInvalid};
    code_point = code_point << 6 | (byte & 0x3F);
    range = {};
  }
  return {code_point, num_bytes, Utf8Form::kValid};
}

void AppendUtf8(int32_t code_point, std::string& text) {
  const auto put_tail = [&](int shift) {
    text.push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F)));
  };
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
    return;
  }
  const int num_tail = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const int lead = num_tail == 1 ? 0xC0 : num_tail == 2 ? 0xE0 : 0xF0;
  text.push_back(static_cast<char>(lead | code_point >> (6 * num_tail)));
  for (int i = num_tail - 1; i >= 0; --i) put_tail(6 * i);
}

}  // namespace flashinfer::engine
