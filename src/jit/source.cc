// SPDX-License-Identifier: Apache-2.0
// Values as C++ source, and the look-up of embedded headers.
#include "jit/source.h"

#include <array>

#include "core/check.h"

namespace flashinfer::jit {

const EmbeddedHeader& FindHeader(std::string_view name) {
  for (const EmbeddedHeader& header : EmbeddedHeaders()) {
    if (header.name == name) return header;
  }
  throw Error(ErrorKind::kInternal, fmt::format("no kernel header '{}' is embedded", name));
}

std::string SourceText(bool value) { return value ? "true" : "false"; }
std::string SourceText(int32_t value) { return std::to_string(value); }
std::string SourceText(int64_t value) { return std::to_string(value); }
// Hexadecimal: exact.
std::string SourceText(float value) { return fmt::format("{:a}f", value); }

std::string SourceText(DType value) {
  constexpr std::array<std::string_view, kNumDTypes> kNames{
      "kF32", "kF16",  "kBF16", "kE4M3", "kE5M2", "kE2M1x2", "kE8M0",
      "kI8",  "kI4x2", "kU8",   "kI32",  "kI64",  "kBool"};
  return fmt::format("DType::{}", kNames.at(static_cast<size_t>(value)));
}

}  // namespace flashinfer::jit
