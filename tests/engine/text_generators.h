// SPDX-License-Identifier: Apache-2.0
// Random texts for property tests: arbitrary UTF-8, arbitrary bytes, and what trips tokenizers.
#pragma once

#include <rapidcheck.h>

#include <string>

namespace flashinfer::test {

inline void AppendUtf8(std::string& text, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

inline rc::Gen<std::string> AnyChar() {
  const auto encode = [](uint32_t code_point) {
    std::string text;
    // Surrogates have no UTF-8 form.
    AppendUtf8(text, code_point >= 0xD800 && code_point < 0xE000 ? 0x20 : code_point);
    return text;
  };
  return rc::gen::map(
      rc::gen::oneOf(rc::gen::inRange<uint32_t>(0, 0x80), rc::gen::inRange<uint32_t>(0, 0x3000),
                     rc::gen::inRange<uint32_t>(0, 0x110000)),
      encode);
}

inline rc::Gen<std::string> AwkwardPiece() {
  return rc::gen::element<std::string>(" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "123", "a",
                                       "\u00BD", "\u3000", "e\u0301", "<|end|>", "<|", "|>");
}

inline rc::Gen<std::string> Joined(const rc::Gen<std::string>& piece) {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& each : pieces) text += each;
                        return text;
                      });
}

/// Valid UTF-8 of any characters.
inline rc::Gen<std::string> AnyUtf8() { return Joined(rc::gen::oneOf(AnyChar(), AwkwardPiece())); }

/// Any bytes, mixed with UTF-8.
inline rc::Gen<std::string> AnyBytes() {
  const auto byte = rc::gen::map(
      rc::gen::inRange(0, 256), [](int value) { return std::string(1, static_cast<char>(value)); });
  return Joined(rc::gen::oneOf(byte, AnyChar(), AwkwardPiece()));
}

}  // namespace flashinfer::test
