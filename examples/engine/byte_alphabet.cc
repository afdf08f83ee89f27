// SPDX-License-Identifier: Apache-2.0
// The byte alphabet as two small tables.
#include "engine/byte_alphabet.h"

#include <array>

#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kNumCodePoints = 0x144;

struct Alphabet {
  std::array<int16_t, 256> code_points{};
  std::array<int16_t, kNumCodePoints> bytes{};  // -1 where no byte

  constexpr Alphabet() {
    bytes.fill(-1);
    int16_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const auto code_point = StandsForItself(byte) ? static_cast<int16_t>(byte) : next++;
      code_points[byte] = code_point;
      bytes[code_point] = static_cast<int16_t>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

std::optional<std::string> DecodeByteAlphabet(std::string_view text) {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const Utf8Char next = DecodeUtf8(text, position);
    if (next.code_point < 0 || next.code_point >= kNumCodePoints) return std::nullopt;
    const int16_t byte = kAlphabet.bytes[next.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    position += next.num_bytes;
  }
  return bytes;
}

std::string EncodeByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    AppendUtf8(kAlphabet.code_points[static_cast<unsigned char>(byte)], text);
  return text;
}

}  // namespace flashinfer::engine
