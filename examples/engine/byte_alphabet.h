// SPDX-License-Identifier: Apache-2.0
// The alphabet in which byte-level BPE vocabularies are written: one printable character a byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flashinfer::engine {

/// The bytes that `text` stands for, or nothing where a character is not of the alphabet.
/// Printable Latin-1 stands for itself, the other 68 bytes are U+0100 to U+0143 in their order.
std::optional<std::string> DecodeByteAlphabet(std::string_view text);

/// `bytes` in the alphabet.
std::string EncodeByteAlphabet(std::string_view bytes);

}  // namespace flashinfer::engine
